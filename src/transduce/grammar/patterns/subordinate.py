"""Sentences with dass, ob, weil, obwohl and wenn: the German verb is last."""

from dataclasses import replace
from random import Random

from transduce.data.corpus import Pair
from transduce.grammar.clauses import (
    Clause,
    english_question,
    finish,
    german_clause,
    say_complex,
    say_main,
    say_predicate,
    say_subordinate,
)
from transduce.grammar.draw.clauses import TENSES, draw_clause
from transduce.grammar.draw.nominals import chance, draw_other_subject, draw_subject
from transduce.grammar.features import Verb
from transduce.grammar.lexicon.adjectives import ADJECTIVES_OF, BLAME
from transduce.grammar.lexicon.verbs import (
    ALL_VERBS,
    BE,
    DENIABLE,
    HAVE,
    HUMAN_VERBS,
    KNOW,
    parse_verb,
)
from transduce.grammar.noun_phrases import PRONOUNS, Nominal
from transduce.grammar.patterns.questions import draw_asked_clause, draw_unknown
from transduce.grammar.wording import join, pairs

_OPINIONS = (
    KNOW,
    parse_verb("think thought | denken denkt gedacht | state | people | -"),
    parse_verb("believe | glauben glaubt geglaubt | state | people | -"),
    parse_verb("say said | sagen sagt gesagt | state | people | -"),
)
_BECAUSE, _ALTHOUGH = Pair("because", "weil"), Pair("although", "obwohl")
_WEATHER = {
    "present": pairs("it is raining/es regnet, it is cold/es kalt ist, it is snowing/es schneit"),
    "past": pairs("it was raining/es geregnet hat, it was very cold/es sehr kalt war"),
    "future": pairs(
        "it rains/es regnet, the weather is good/das Wetter gut ist, it snows/es schneit"
    ),
}
_HINDRANCES = pairs("tired/müde, sick/krank, very tired/sehr müde, very sick/sehr krank")
_LACKS = pairs("no time/keine Zeit, little time/wenig Zeit, a lot of work/viel Arbeit")
_TIME_LEFT = pairs("time/Zeit, enough time/genug Zeit")
_MONEY_LEFT = pairs("money/Geld, enough money/genug Geld")
_COSTLY = ("buy", "rent", "travel", "fly", "order", "build")
# Properties of an object that are a reason for the action.
_MOTIVES = {
    "buy": [
        "beautiful",
        "cheap",
        "comfortable",
        "interesting",
        "exciting",
        "modern",
        "fresh",
        "new",
    ],
    "read": ["interesting", "exciting", "short", "beautiful"],
    "rent": ["cheap", "modern", "beautiful", "new", "quiet"],
    "wear": ["warm", "comfortable", "beautiful", "new"],
    "sell": ["old", "slow", "broken"],
    "repair": ["broken"],
    "wash": ["dirty"],
    "clean": ["dirty"],
    "throw": ["old", "dirty"],
}
_WELCOME = ("buy", "read", "rent", "wear")
_CALM = ("eat", "drink", "sleep", "cry", "laugh", "smile", "dream", "think", "wear", "take", "put")
_HINDERED = tuple(
    verb for verb in HUMAN_VERBS if verb.aspect in ("activity", "action") and verb.base not in _CALM
)
_HINDERED_DENIABLE = tuple(verb for verb in _HINDERED if verb in DENIABLE)
_PLANNED = tuple(
    verb
    for verb in HUMAN_VERBS
    if "future" in TENSES[verb.aspect] and verb.aspect != "schedule" and verb.base not in _CALM
)
_JUDGING = tuple(verb for verb in HUMAN_VERBS if verb.complements and verb.base in _MOTIVES)


def draw_opinion(rng: Random) -> Pair:
    """I think that ...: after dass the verb is last."""
    opinion, verb = rng.choice(_OPINIONS), rng.choice(ALL_VERBS)
    subject = draw_other_subject(rng, opinion, PRONOUNS["you"])
    while opinion.base == "say" and subject.person == 1:
        subject = draw_other_subject(rng, opinion, PRONOUNS["you"])
    clause = draw_clause(rng, verb, draw_other_subject(rng, verb, subject))
    content = say_subordinate(clause, Pair("that", "dass"))
    return finish(say_complex(say_main(Clause(subject, opinion)), content))


def draw_indirect_question(rng: Random) -> Pair:
    """I do not know whether ...: in an indirect question the verb is last too."""
    word, clause = draw_unknown(rng)
    if chance(rng, 0.5):
        word, clause = Pair("whether", "ob"), draw_asked_clause(rng, rng.choice(ALL_VERBS))
    content = say_subordinate(clause, word)
    if clause.subject.person != 2 and chance(rng, 0.3):
        asking = Clause(PRONOUNS["you"], KNOW)
        asked = Pair(english_question(asking), german_clause(asking, "first"))
        return finish(say_complex(asked, content), "?")
    while True:
        subject = draw_other_subject(rng, KNOW, clause.subject)
        if subject.person != 2:
            break
    return finish(say_complex(say_main(Clause(subject, KNOW, negated=True)), content))


def _draw_coreferent(rng: Random, verb: Verb) -> Nominal:
    """Draw a subject that a pronoun can replace in both languages."""
    while True:
        subject = draw_subject(rng, verb, definite=True)
        if subject.pronoun:
            return subject


def draw_reason_in_subject(rng: Random) -> Pair:
    """... because she is sick, ... although it is raining: the verb is last."""
    negated = chance(rng, 0.5)
    verb = rng.choice(_HINDERED_DENIABLE if negated else _HINDERED)
    subject = _draw_coreferent(rng, verb)
    clause = draw_clause(rng, verb, subject, tenses=("present", "past"), negated=negated)
    pronoun, conjunction = PRONOUNS[subject.pronoun], _BECAUSE if negated else _ALTHOUGH
    being = Clause(pronoun, BE, clause.tense, goal=rng.choice(_HINDRANCES))
    having = Clause(pronoun, HAVE, clause.tense, goal=rng.choice(_LACKS))
    reason = say_subordinate(rng.choice((being, having)), conjunction)
    if verb.places and chance(rng, 0.4):
        weather = rng.choice(_WEATHER[clause.tense])
        reason = Pair(*map(join, conjunction, weather))
    return finish(say_complex(say_main(clause), reason))


def draw_reason_in_object(rng: Random) -> Pair:
    """... because it was cheap: the pronoun has its noun's grammatical gender."""
    while True:
        verb = rng.choice(_JUDGING)
        clause = draw_clause(rng, verb, tenses=("present", "past"), definite=True, timed=0.2)
        thing = clause.objects[-1].nominal
        if thing.noun and not thing.described and not (thing.plural and clause.subject.plural):
            motives = _MOTIVES[verb.base]
            known = ADJECTIVES_OF[thing.noun.english]
            faults = BLAME if verb.base in _WELCOME else ()
            fitting = [one for one in known if one.english in (*motives, *faults)]
            if fitting:
                break
    adjective = rng.choice(fitting)
    conjunction = _BECAUSE if adjective.english in motives else _ALTHOUGH
    reason = Clause(PRONOUNS[thing.pronoun], BE, clause.tense, goal=say_predicate(adjective))
    return finish(say_complex(say_main(clause), say_subordinate(reason, conjunction)))


def draw_condition(rng: Random) -> Pair:
    """If ..., Anna will ...: after a clause in first position the verb comes next."""
    verb = rng.choice(_PLANNED)
    subject = _draw_coreferent(rng, verb)
    clause = draw_clause(rng, verb, subject, tenses=("future",), timed=0.3)
    pronoun, first = PRONOUNS[subject.pronoun], chance(rng, 0.5)
    condition = rng.choice(_WEATHER["future"])
    if not verb.places or chance(rng, 0.5):
        means = rng.choice(_MONEY_LEFT if verb.base in _COSTLY else _TIME_LEFT)
        condition = say_subordinate(Clause(subject if first else pronoun, HAVE, goal=means))
        clause = replace(clause, subject=pronoun if first else subject)
    condition = Pair(f"if {condition.src}", f"wenn {condition.tgt}")
    if not first:
        return finish(say_complex(say_main(clause), condition))
    english, german = say_main(clause, f"{condition.tgt},")
    return finish(Pair(f"{condition.src}, {english}", german))
