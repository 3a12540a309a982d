"""Questions: yes or no, and those with a question word."""

from dataclasses import replace
from random import Random

from transduce.data.corpus import Pair
from transduce.grammar.clauses import (
    Clause,
    Object,
    english_question,
    finish,
    german_clause,
    say_main,
)
from transduce.grammar.declension import DETERMINERS
from transduce.grammar.draw.clauses import TENSES, draw_clause
from transduce.grammar.draw.nominals import chance, has_plural
from transduce.grammar.features import Noun, Verb
from transduce.grammar.inflection import MODALS
from transduce.grammar.lexicon.nouns import HUMAN
from transduce.grammar.lexicon.times import OFTEN
from transduce.grammar.lexicon.verbs import ALL_VERBS, GAPPED, HUMAN_VERBS
from transduce.grammar.noun_phrases import PRONOUNS, Nominal, noun_phrase
from transduce.grammar.wording import NOTHING

_WORDS = {"why": "warum", "when": "wann", "where": "wo", "where to": "wohin"}
_ASKED = tuple(gapped for gapped in GAPPED if gapped[0].base != "answer")


def draw_yes_no_question(rng: Random) -> Pair:
    """Is Anna reading a book? The verb is first."""
    clause = draw_asked_clause(rng, rng.choice(ALL_VERBS))
    return finish(Pair(english_question(clause), german_clause(clause, "first")), "?")


def draw_who_question(rng: Random) -> Pair:
    """Who is reading a book? The subject is asked for."""
    clause = draw_asked_clause(rng, rng.choice(HUMAN_VERBS), PRONOUNS["who"])
    return finish(say_main(clause), "?")


def draw_object_question(rng: Random) -> Pair:
    """What, whom or which ...: the object is first."""
    verb, governed = rng.choice(_ASKED)
    noun = rng.choice(governed.nouns)
    asked = Object(_draw_interrogative(rng, noun, single=governed.single), governed)
    clause = draw_asked_clause(rng, verb, given=asked)
    front, preposition = asked.german, governed.preposition.tgt
    if asked.nominal is PRONOUNS["what"] and preposition:
        front = f"wo{'r' if preposition[0] in 'aeiouü' else ''}{preposition}"
    english = f"{asked.nominal.english} {english_question(clause, asked)}"
    return finish(Pair(english, german_clause(clause, "second", front=front, gap=asked)), "?")


def draw_adverb_question(rng: Random) -> Pair:
    """Why, when, where ...: the question word is first and the verb second."""
    word, clause = draw_unknown(rng)
    german = german_clause(clause, "second", front=word.tgt)
    return finish(Pair(f"{word.src} {english_question(clause)}", german), "?")


def _draw_interrogative(rng: Random, noun: Noun, *, single: bool) -> Nominal:
    if not has_plural(noun) or noun.kind == "relative" or chance(rng, 0.4):
        return PRONOUNS["who" if noun.kind in HUMAN else "what"]
    if not single and chance(rng, 0.3):
        return noun_phrase(DETERMINERS["how many"], noun, plural=True)
    return noun_phrase(DETERMINERS["which"], noun, plural=not single and chance(rng, 0.3))


def draw_asked_clause(
    rng: Random,
    verb: Verb,
    subject: Nominal | None = None,
    *,
    tenses: tuple[str, ...] = (),
    given: Object | None = None,
    timed: float = 0.4,
) -> Clause:
    """Draw a clause to ask about: without never, and not about what I am doing."""
    while True:
        clause = draw_clause(
            rng, verb, subject, tenses=tenses, given=given, definite=True, timed=timed
        )
        if clause.subject.person != 1 or clause.tense in MODALS:
            break
    return replace(clause, often=rng.choice(OFTEN[:2])) if clause.often.src else clause


def draw_unknown(rng: Random) -> tuple[Pair, Clause]:
    """Draw a question word and a clause without what it asks for."""
    asked = rng.choice(tuple(_WORDS))
    directions = {"where": ("at", "in"), "where to": ("to",)}.get(asked)
    dated = {"past", "future"} if asked == "when" else set()
    tenses = ("present", "habit", "past", "future") if asked == "why" else tuple(sorted(dated))
    verbs = [
        verb
        for verb in ALL_VERBS
        if (not directions or verb.direction in directions)
        and dated <= set(TENSES[verb.aspect])
        and (asked != "why" or verb.aspect in ("activity", "action"))
    ]
    clause = draw_asked_clause(rng, rng.choice(verbs), tenses=tenses, timed=0.0)
    if directions:
        clause = replace(clause, where=NOTHING, goal=NOTHING)
    return Pair(asked.removesuffix(" to"), _WORDS[asked]), clause
