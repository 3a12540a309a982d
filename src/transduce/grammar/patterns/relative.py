"""Sentences with a relative clause."""

from dataclasses import replace
from random import Random

from transduce.data.corpus import Pair
from transduce.grammar.clauses import (
    Clause,
    Object,
    finish,
    say_main,
    say_predicate,
    say_subordinate,
)
from transduce.grammar.declension import DETERMINERS
from transduce.grammar.draw.clauses import draw_clause
from transduce.grammar.draw.nominals import chance, draw_adjectives, draw_other_subject
from transduce.grammar.features import Noun, Verb
from transduce.grammar.lexicon.adjectives import ADJECTIVES_OF, DESCRIBABLE
from transduce.grammar.lexicon.nouns import ALL_NOUNS, select
from transduce.grammar.lexicon.verbs import ALL_VERBS, BE, GAPPED
from transduce.grammar.noun_phrases import Nominal, noun_phrase, relative_pronoun

_PERSONS = select("person child")
_SUBJECT_OF = {
    noun.english: [verb for verb in ALL_VERBS if noun in verb.subjects] for noun in ALL_NOUNS
}
_OBJECT_OF = {
    noun.english: [gapped for gapped in GAPPED if noun in gapped[1].nouns] for noun in ALL_NOUNS
}
_ANTECEDENTS = tuple(
    noun
    for noun in DESCRIBABLE
    if noun.kind not in ("relative", "elder", "staple", "drink")
    and len(_SUBJECT_OF[noun.english]) + len(_OBJECT_OF[noun.english]) > 1
)
_SIMPLE = tuple(verb for verb in ALL_VERBS if verb.base in ("see", "know", "need", "look"))
_OWNED_NOUNS = select("vehicle pet clothing device luggage house apartment")


def draw_relative_subject(rng: Random) -> Pair:
    """The man who is reading the book is tired."""
    noun = rng.choice(_ANTECEDENTS)
    antecedent = noun_phrase(DETERMINERS["the"], noun, plural=chance(rng, 0.3))
    subject = _with_relative_clause(rng, antecedent, noun)
    adjective = rng.choice(ADJECTIVES_OF[noun.english])
    return finish(say_main(Clause(subject, BE, goal=say_predicate(adjective))))


def draw_relative_object(rng: Random) -> Pair:
    """I know the man who is reading the book; this is the book that he is reading."""
    verb = rng.choice(_SIMPLE)
    governed = verb.complements[0]
    noun = rng.choice([noun for noun in governed.nouns if noun in _ANTECEDENTS])
    plural = chance(rng, 0.3)
    antecedent = noun_phrase(DETERMINERS["the"], noun, draw_adjectives(rng, noun), plural=plural)
    extended = _with_relative_clause(rng, antecedent, noun, verb)
    if chance(rng, 0.4):
        english, german = ("these are", "das sind") if plural else ("this is", "das ist")
        said = Pair(f"{english} {extended.english}", f"{german} {extended.german['nom']}")
        return finish(said)
    subject = draw_other_subject(rng, verb, antecedent)
    return finish(say_main(Clause(subject, verb, objects=(Object(extended, governed),))))


def draw_whose(rng: Random) -> Pair:
    """The boy whose bicycle is broken is sad: dessen or deren."""
    noun, owned_noun = rng.choice(_PERSONS), rng.choice(_OWNED_NOUNS)
    antecedent = noun_phrase(DETERMINERS["the"], noun, plural=chance(rng, 0.3))
    owned = noun_phrase(DETERMINERS[""], owned_noun, plural=chance(rng, 0.3))
    whose = "deren" if antecedent.plural or noun.gender == "f" else "dessen"
    state = say_predicate(rng.choice(ADJECTIVES_OF[owned_noun.english]))
    clause = say_subordinate(Clause(owned, BE, goal=state), Pair("whose", whose))
    goal = say_predicate(rng.choice(ADJECTIVES_OF[noun.english]))
    return finish(say_main(Clause(_extended(antecedent, clause), BE, goal=goal)))


def _with_relative_clause(
    rng: Random, antecedent: Nominal, noun: Noun, unlike: Verb = BE
) -> Nominal:
    """Add a clause whose relative pronoun is its subject or its object."""
    relative, tenses = relative_pronoun(antecedent), ("present", "habit", "past")
    as_subject = [verb for verb in _SUBJECT_OF[noun.english] if verb is not unlike]
    as_object = [gapped for gapped in _OBJECT_OF[noun.english] if gapped[0] is not unlike]
    if as_subject and (not as_object or chance(rng, 0.5)):
        verb = rng.choice(as_subject)
        clause = draw_clause(rng, verb, relative, tenses=tenses, timed=0.1)
        return _extended(antecedent, say_subordinate(clause))
    verb, governed = rng.choice(as_object)
    gap = Object(relative, governed)
    subject = draw_other_subject(rng, verb, antecedent)
    clause = draw_clause(rng, verb, subject, tenses=tenses, given=gap, timed=0.1)
    return _extended(
        antecedent, say_subordinate(clause, Pair(relative.english_object, gap.german), gap)
    )


def _extended(nominal: Nominal, clause: Pair) -> Nominal:
    return replace(
        nominal,
        english=f"{nominal.english} {clause.src}",
        english_object=f"{nominal.english_object} {clause.src}",
        german={case: f"{form}, {clause.tgt}," for case, form in nominal.german.items()},
    )
