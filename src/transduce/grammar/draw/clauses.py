"""Drawing clauses: which tenses, objects, times and places go with a verb."""

from random import Random

from transduce.grammar.clauses import Clause, Object
from transduce.grammar.draw.adverbials import draw_surroundings, draw_time
from transduce.grammar.draw.nominals import chance, draw_object, draw_subject
from transduce.grammar.features import Verb
from transduce.grammar.inflection import MODALS
from transduce.grammar.lexicon.times import OFTEN
from transduce.grammar.noun_phrases import Nominal
from transduce.grammar.wording import NOTHING

# By a verb's aspect; a tense that is listed twice is drawn twice as often.
TENSES = {
    "activity": ("present", "present", "habit", "past", "past", "future", "modal"),
    "action": ("present", "past", "past", "future", "modal"),
    "event": ("past", "past", "future", "modal"),
    "accident": ("past",),
    "schedule": ("habit", "past", "future"),
    "state": ("present", "present", "present", "past"),
    "position": ("present", "past"),
    "mood": ("present", "habit", "past"),
}


def draw_clause(
    rng: Random,
    verb: Verb,
    subject: Nominal | None = None,
    *,
    tenses: tuple[str, ...] = (),
    given: Object | None = None,
    negated: bool = False,
    definite: bool = False,
    definite_objects: bool = False,
    timed: float = 0.4,
) -> Clause:
    """Draw a clause, except for what is given; `definite` refers to the subject."""
    tense = _draw_tense(rng, verb, tenses, negated=negated)
    definite = definite or negated or tense == "habit"
    subject = subject or draw_subject(rng, verb, definite=definite)
    objects = []
    for governed in verb.complements:
        if given and given.governed is governed:
            objects.append(given)
            continue
        nominal = draw_object(
            rng, verb, governed, subject, negated=negated, definite=definite_objects
        )
        objects.append(Object(nominal, governed))
    optional = not negated and chance(rng, 0.4)
    where, goal = draw_surroundings(rng, verb, subject, optional=optional)
    often = time = NOTHING
    if tense == "habit" and verb.aspect != "schedule" and chance(rng, 0.6):
        often = rng.choice(OFTEN)
    elif tense == "habit" or (verb.aspect not in ("state", "position") and chance(rng, timed)):
        time = draw_time(rng, tense, verb)
    return Clause(subject, verb, tense, tuple(objects), time, often, where, goal, negated)


def _draw_tense(rng: Random, verb: Verb, wanted: tuple[str, ...], *, negated: bool) -> str:
    unwanted = "habit" if negated else ""
    known = [tense for tense in TENSES[verb.aspect] if tense != unwanted]
    tense = rng.choice([tense for tense in known if tense in wanted] if wanted else known)
    if tense != "modal":
        return tense
    if not verb.human:
        return rng.choice(("can", "want to"))
    return rng.choice([modal for modal in MODALS if not (negated and modal == "like to")])
