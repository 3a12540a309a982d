"""Sentences of main clauses only: statements, descriptions, commands, numbers."""

from dataclasses import replace
from random import Random

from transduce.data.corpus import Pair
from transduce.grammar.clauses import (
    Clause,
    english_imperative,
    english_question,
    finish,
    german_clause,
    german_imperative,
    say_main,
    say_predicate,
)
from transduce.grammar.declension import DETERMINERS
from transduce.grammar.draw.adverbials import draw_date, draw_place
from transduce.grammar.draw.clauses import TENSES, draw_clause
from transduce.grammar.draw.nominals import (
    FOLK,
    OWNABLE,
    chance,
    draw_adjectives,
    draw_bare_phrase,
    draw_numeral,
    draw_other_subject,
    draw_subject,
)
from transduce.grammar.features import Adjective, Noun
from transduce.grammar.lexicon.adjectives import ADJECTIVES_OF, BLAME, DESCRIBABLE
from transduce.grammar.lexicon.nouns import HUMAN, NAMES, TOWNS, select
from transduce.grammar.lexicon.verbs import ALL_VERBS, BE, DENIABLE, HUMAN_VERBS, parse_verb
from transduce.grammar.noun_phrases import PRONOUNS, Nominal, name, noun_phrase
from transduce.grammar.numerals import cardinal
from transduce.grammar.wording import NOTHING

_COST = parse_verb("cost cost | kosten kostet gekostet | state | things | -")
_COMMANDS = tuple(
    verb
    for verb in HUMAN_VERBS
    if (verb.complements or verb.direction == "to")
    and (verb.aspect in ("activity", "action") or verb.base in ("take", "bring", "give"))
    and verb.base not in ("thank", "dream", "wear", "build")
)
_COMPARABLE = tuple(
    noun
    for noun in DESCRIBABLE
    if noun.kind not in ("beast", "dish", "drink", "staple")
    and any(adjective.comparative for adjective in ADJECTIVES_OF[noun.english])
)
_SIGHTS = select("outing school hospital hotel library")
_VILLAGE = select("village")
_PRICED = select("clothing thing press luggage lamp chair")


def draw_statement(rng: Random) -> Pair:
    """Anna is reading a book: a main clause, sometimes a negated one."""
    negated = chance(rng, 0.18)
    verb = rng.choice(DENIABLE if negated else ALL_VERBS)
    return finish(say_main(draw_clause(rng, verb, negated=negated)))


def draw_fronted(rng: Random) -> Pair:
    """Yesterday ...: the time is first, and the German verb still second."""
    while True:
        clause = draw_clause(rng, rng.choice(ALL_VERBS), timed=1.0)
        if clause.time is not NOTHING and clause.tense not in ("like to", "want to"):
            break
    english, german = say_main(replace(clause, time=NOTHING), clause.time.tgt)
    return finish(Pair(f"{clause.time.src} {english}", german))


def draw_coordination(rng: Random) -> Pair:
    """..., and ...; ..., but ...: two main clauses, both with the verb second."""
    tense = rng.choice(("present", "past"))
    verbs = [verb for verb in HUMAN_VERBS if tense in TENSES[verb.aspect]]
    one, other = rng.sample(verbs, 2)
    first = draw_clause(rng, one, tenses=(tense,), definite=True, timed=0.1)
    subject = draw_other_subject(rng, other, first.subject)
    second = draw_clause(rng, other, subject, tenses=(tense,), timed=0.1)
    conjunction = rng.choice((Pair("and", "und"), Pair("but", "aber")))
    (english, german), (english_too, german_too) = say_main(first), say_main(second)
    return finish(
        Pair(
            f"{english}, {conjunction.src} {english_too}",
            f"{german}, {conjunction.tgt} {german_too}",
        )
    )


def draw_description(rng: Random) -> Pair:
    """The soup was very hot: an adjective after be has no ending."""
    noun = rng.choice(DESCRIBABLE)
    subject = draw_bare_phrase(rng, noun)
    if noun.kind == "child":  # its adjectives suit any person
        subject = draw_subject(rng, BE, definite=True)
        subject = draw_bare_phrase(rng, subject.noun) if subject.noun else subject
    adjective = rng.choice(ADJECTIVES_OF[noun.english])
    degrees = (NOTHING, Pair("very", "sehr")) if adjective.comparative else (NOTHING,)
    if adjective.english in BLAME and noun.kind not in HUMAN:
        degrees = (*degrees, Pair("too", "zu"))
    tense, goal = rng.choice(("present", "past")), say_predicate(adjective, rng.choice(degrees))
    clause = Clause(subject, BE, tense, goal=goal, negated=chance(rng, 0.2))
    if not clause.negated and chance(rng, 0.25):
        return finish(Pair(english_question(clause), german_clause(clause, "first")), "?")
    return finish(say_main(clause))


def draw_comparison(rng: Random) -> Pair:
    """My car is faster than your car; as fast as your car."""
    while True:
        noun = rng.choice(_COMPARABLE)
        adjective = rng.choice(ADJECTIVES_OF[noun.english])
        compared = _draw_compared(rng, noun, adjective)
        if adjective.comparative and compared:
            break
    subject, other = compared
    english, german = f"{adjective.comparative.src} than", f"{adjective.comparative.tgt} als"
    if chance(rng, 0.3):
        english, german = f"as {adjective.english} as", f"so {adjective.german} wie"
    goal = Pair(f"{english} {other.english}", f"{german} {other.german['nom']}")
    return finish(say_main(Clause(subject, BE, goal=goal)))


def _draw_compared(rng: Random, noun: Noun, adjective: Adjective) -> tuple[Nominal, Nominal] | None:
    """Draw two to compare: my dog and your dog, or two nouns of one kind."""
    if noun.english in OWNABLE:
        first, second = rng.sample(("my", "your", "his", "her", "our", "this"), 2)
        return noun_phrase(DETERMINERS[first], noun), noun_phrase(DETERMINERS[second], noun)
    others = [
        other
        for other in DESCRIBABLE
        if other.kind == noun.kind
        and other is not noun
        and adjective in ADJECTIVES_OF[other.english]
    ]
    if not others:
        return None
    return draw_bare_phrase(rng, noun), draw_bare_phrase(rng, rng.choice(others))


def draw_command(rng: Random) -> Pair:
    """Please open the window."""
    verb = rng.choice(_COMMANDS)
    negated = verb in DENIABLE and chance(rng, 0.2)
    while True:
        clause = draw_clause(
            rng, verb, PRONOUNS["you"], negated=negated, definite_objects=True, timed=0.0
        )
        if all(thing.nominal.definite or not negated for thing in clause.objects):
            break
    clause = replace(clause, where=NOTHING, often=NOTHING, time=NOTHING)
    english = english_imperative(clause)
    if negated:
        return finish(Pair(f"do not {english}", german_imperative(clause)), "!")
    if chance(rng, 0.5):
        clause = replace(clause, often=Pair("please", "bitte"))
        return finish(Pair(f"please {english}", german_imperative(clause)))
    return finish(Pair(english, german_imperative(clause)), "!")


def draw_existence(rng: Random) -> Pair:
    """There are two museums in Berlin."""
    noun, plural, in_town = rng.choice(_SIGHTS), chance(rng, 0.5), chance(rng, 0.6)
    one, some = ("a", "many") if in_town else (rng.choice(("a", "no")), "some")
    determiner = DETERMINERS[some if plural else one]
    if plural and chance(rng, 0.6):
        determiner = draw_numeral(rng, 12 if in_town else 3)
    nominal = noun_phrase(determiner, noun, draw_adjectives(rng, noun), plural=plural)
    places: tuple[Noun | Pair, ...] = TOWNS if in_town else _VILLAGE
    place = rng.choice(places)
    english, german = draw_place(rng, place, PRONOUNS["what"], goal=False)
    return finish(
        Pair(
            f"there {'are' if plural else 'is'} {nominal.english} {english}",
            f"{german} gibt es {nominal.german['acc']}",
        )
    )


def draw_price(rng: Random) -> Pair:
    """The shirt costs forty-two euros."""
    noun, price = rng.choice(_PRICED), cardinal(rng.randint(2, 99))
    determiner = DETERMINERS[rng.choice(("the", "this"))]
    subject = noun_phrase(determiner, noun)
    goal = Pair(f"{price.src} euros", f"{price.tgt} Euro")
    return finish(say_main(Clause(subject, _COST, goal=goal)))


def draw_age(rng: Random) -> Pair:
    """The girl is seven years old."""
    noun = rng.choice(FOLK)
    subject, years = draw_bare_phrase(rng, noun), rng.randint(40, 60)
    if noun.kind == "child":
        years = rng.randint(3, 14)
    elif chance(rng, 0.5):
        subject, years = name(rng.choice(NAMES)), rng.randint(2, 99)
    age = cardinal(years)
    goal = Pair(f"{age.src} years old", f"{age.tgt} Jahre alt")
    return finish(say_main(Clause(subject, BE, goal=goal)))


def draw_birth(rng: Random) -> Pair:
    """Anna was born in Vienna in 1987, or on the third of May."""
    person, town, year = rng.choice(NAMES), rng.choice(TOWNS), rng.randint(1930, 2015)
    when = draw_date(rng) if chance(rng, 0.5) else Pair(f"in {year}", f"im Jahr {year}")
    return finish(
        Pair(
            f"{person} was born in {town.src} {when.src}",
            f"{person} wurde {when.tgt} in {town.tgt} geboren",
        )
    )
