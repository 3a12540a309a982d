"""Drawing subjects and objects: which nouns, determiners and adjectives go together."""

from random import Random

from transduce.grammar.declension import DETERMINERS, Determiner
from transduce.grammar.features import Adjective, Complement, Noun, Verb
from transduce.grammar.lexicon.adjectives import ADJECTIVES_OF, COLORS
from transduce.grammar.lexicon.nouns import GROUPS, HUMAN, NAMES, select
from transduce.grammar.noun_phrases import (
    PERSONAL,
    POSSESSIVE,
    PRONOUNS,
    Nominal,
    name,
    noun_phrase,
)
from transduce.grammar.numerals import cardinal

_OWNED = GROUPS["things"] + " pet livestock text garden kitchen room office house apartment"
OWNABLE = {noun.english for noun in select(_OWNED)}
FOLK = select("folk")
# "I have my phone" and "he buys his car" sound odd: (determiner, plural) to use instead.
_UNOWNED = {
    "have": (("a", False), ("a", False), ("some", True), ("many", True)),
    "buy": (("a", False), ("the", False), ("this", False), ("the", True), ("some", True)),
}
_GENERIC = frozenset(noun.kind for noun in select("produce"))


def chance(rng: Random, probability: float) -> bool:
    """Return True with this probability."""
    return rng.random() < probability


def draw_numeral(rng: Random, most: int) -> Determiner:
    """Draw a number from two to `most`, as a determiner."""
    number = cardinal(rng.randint(2, most))
    return Determiner("", number.src, number.tgt, "fixed", definite=False)


def draw_owner(rng: Random, subject: Nominal | None) -> str:
    """Draw a possessive: the subject's own, or one that is not ambiguous."""
    own = POSSESSIVE.get(subject.pronoun, "") if subject else ""
    if own and chance(rng, 0.6):
        return own
    return rng.choice(("my", "your", "our") if subject else ("my", "your", "our", "his", "her"))


def draw_adjectives(rng: Random, noun: Noun) -> tuple[Adjective, ...]:
    """Draw no adjective, one, or one and a color."""
    known = ADJECTIVES_OF[noun.english]
    if not known or not chance(rng, 0.15 if noun.kind in ("relative", "elder") else 0.4):
        return ()
    first, second = rng.choice(known), rng.choice(known)
    if second.english in COLORS and first.english not in COLORS and chance(rng, 0.5):
        return first, second
    return (first,)


def has_plural(noun: Noun) -> bool:
    """Whether a noun is used in the plural; `my fathers` is not."""
    return noun.german_plural != "-" and noun.kind != "elder"


def _draw_determiner(
    rng: Random, noun: Noun, *, plural: bool, subject: Nominal | None, definite: bool
) -> Determiner:
    if noun.kind in ("relative", "elder"):
        return DETERMINERS[draw_owner(rng, subject)]
    if noun.kind in ("language", "game"):
        return DETERMINERS[""]
    if noun.german_plural == "-":
        return DETERMINERS["the" if definite or chance(rng, 0.3) else ""]
    if noun.english in OWNABLE and chance(rng, 0.25):
        return DETERMINERS[draw_owner(rng, subject)]
    if definite:
        return DETERMINERS[rng.choice(("the", "the", "the", "this"))]
    if not plural:
        return DETERMINERS[rng.choice(("the", "the", "this", "a", "a", "a"))]
    choices = ("the", "the", "this", "many", "some", "number", "number")
    choice = rng.choice((*choices, "", "") if subject and noun.kind in _GENERIC else choices)
    return draw_numeral(rng, 5) if choice == "number" else DETERMINERS[choice]


def _draw_noun_phrase(
    rng: Random, noun: Noun, *, subject: Nominal | None = None, definite: bool = False
) -> Nominal:
    plural = has_plural(noun) and chance(rng, 0.3)
    determiner = _draw_determiner(rng, noun, plural=plural, subject=subject, definite=definite)
    return noun_phrase(determiner, noun, draw_adjectives(rng, noun), plural=plural)


def _draw_single(rng: Random, noun: Noun, subject: Nominal, *, definite: bool) -> Nominal:
    """Draw a single thing, or one garment for each person of a plural subject."""
    plural = noun.kind == "clothing" and subject.plural
    keys = ["the"] if definite or plural else ["the", "a", "a"]
    if noun.kind == "clothing" and subject.pronoun in POSSESSIVE:
        keys += [POSSESSIVE[subject.pronoun]] * 2
    adjectives = draw_adjectives(rng, noun)
    if any(adjective.english == "old" for adjective in adjectives):  # "builds an old ship"
        adjectives = ()
    return noun_phrase(DETERMINERS[rng.choice(keys)], noun, adjectives, plural=plural)


def _draw_owned_phrase(rng: Random, noun: Noun, subject: Nominal) -> Nominal:
    """Draw a phrase like Anna's old car, Annas altes Auto; my son's car, das Auto meines Sohnes."""
    plural, adjectives = has_plural(noun) and chance(rng, 0.3), draw_adjectives(rng, noun)
    if chance(rng, 0.5):
        owner = rng.choice([one for one in NAMES if one not in subject.heads])
        determiner = Determiner(f"{owner}'s", f"{owner}'s", f"{owner}s", "fixed")
        return noun_phrase(determiner, noun, adjectives, plural=plural)
    owner_noun = rng.choice([one for one in FOLK if one.english not in subject.heads])
    its_determiner = _draw_determiner(rng, owner_noun, plural=False, subject=None, definite=True)
    phrase = noun_phrase(its_determiner, owner_noun)
    english = f"{phrase.english}'s"
    determiner = Determiner(english, english, "", "definite")
    return noun_phrase(determiner, noun, adjectives, plural=plural, owner=phrase.german["gen"])


def draw_bare_phrase(rng: Random, noun: Noun) -> Nominal:
    """Draw a definite phrase without adjectives."""
    plural = has_plural(noun) and chance(rng, 0.3)
    determiner = _draw_determiner(rng, noun, plural=plural, subject=None, definite=True)
    return noun_phrase(determiner, noun, plural=plural)


def draw_subject(rng: Random, verb: Verb, *, definite: bool) -> Nominal:
    """Draw a pronoun, a name or a noun phrase that can do what the verb says."""
    if verb.human and chance(rng, 0.55):
        names = rng.sample(NAMES, 2)
        choice = rng.random()
        if choice < 0.5:
            return PRONOUNS[rng.choice(PERSONAL)]
        return name(*names[: 1 if choice < 0.9 else 2])
    noun = rng.choice(verb.subjects)
    if verb.base == "belong":  # "my key belongs to my brother" is a contradiction
        return noun_phrase(
            DETERMINERS[rng.choice(("the", "this"))], noun, draw_adjectives(rng, noun)
        )
    if not definite and noun.kind in ("person", "child") and chance(rng, 0.1):
        return noun_phrase(DETERMINERS[rng.choice(("every", "no"))], noun)
    return _draw_noun_phrase(rng, noun, definite=definite)


def draw_other_subject(rng: Random, verb: Verb, taken: Nominal) -> Nominal:
    """Draw a subject that shares no person or thing with `taken`."""
    while True:
        subject = draw_subject(rng, verb, definite=True)
        same = subject.heads & taken.heads or subject.person == taken.person != 3
        if not same and not (subject.is_pronoun and subject.person == 3):
            return subject


def _draw_person(rng: Random, subject: Nominal) -> Nominal:
    """Draw a name or a pronoun that is not the subject itself."""
    if chance(rng, 0.4):
        return name(rng.choice([one for one in NAMES if one not in subject.heads]))
    keys = [
        key for key in PERSONAL if PRONOUNS[key].person in (3, {1: 2, 2: 1}.get(subject.person))
    ]
    return PRONOUNS[rng.choice(keys)]


def draw_object(
    rng: Random,
    verb: Verb,
    governed: Complement,
    subject: Nominal,
    *,
    negated: bool,
    definite: bool,
) -> Nominal:
    """Draw an object; if it is negated and indefinite, its determiner is kein."""
    noun = rng.choice([noun for noun in governed.nouns if noun is not subject.noun])
    alone = len(verb.complements) == 1
    direct = governed.case == "acc" and not governed.preposition.tgt
    if noun.kind in HUMAN and chance(rng, 0.3):
        return _draw_person(rng, subject)
    if noun.english in OWNABLE and alone and not governed.single and chance(rng, 0.1):
        return _draw_owned_phrase(
            rng, noun, subject
        )  # "reading my aunt Paul's letter" is ambiguous
    deniable = direct and (verb.aspect != "state" or verb.base in ("have", "need"))
    if negated and deniable and noun.kind not in ("relative", "elder") and chance(rng, 0.4):
        plural = not governed.single and has_plural(noun) and chance(rng, 0.3)
        key = "not any" if noun.german_plural == "-" else "not a"
        return noun_phrase(DETERMINERS[key], noun, draw_adjectives(rng, noun), plural=plural)
    if verb.base in _UNOWNED and noun.german_plural != "-" and not negated:
        key, plural = rng.choice(_UNOWNED[verb.base])
        return noun_phrase(DETERMINERS[key], noun, draw_adjectives(rng, noun), plural=plural)
    definite = definite or negated or not (alone or direct)
    if governed.single:
        return _draw_single(rng, noun, subject, definite=definite)
    return _draw_noun_phrase(rng, noun, subject=subject, definite=definite)
