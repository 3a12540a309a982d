"""Sentences with their trees, from a small grammar of English of our own.

The grammar has what makes parsing hard: prepositional phrases that belong to a noun or to a verb,
coordination, relative clauses, and words that are nouns or verbs. A sentence has one tree here; the
attachment of a phrase follows from its preposition.
"""

from random import Random

from transduce.data.corpus import Pair
from transduce.trees.brackets import to_brackets
from transduce.trees.tree import TOP, Tree

MAX_TRIES = 1_000

WORDS = {
    "DT": "the a every some no this",
    "JJ": "old small red quiet clever wooden early heavy foreign honest",
    "NN": "dog walk plan letter garden river baker watch play guard house ship bridge song road",
    "NNS": "dogs walks plans letters gardens rivers bakers watches plays guards ships songs",
    "NNP": "Anna Boris Clara David Emma Felix Lisbon Vienna Oslo",
    "PRP": "he she it they we",
    "VBZ": "sees walks plans watches plays guards follows paints carries finds",
    "VBD": "saw walked planned watched played guarded followed painted carried found",
    "RB": "often quietly never soon today slowly",
    "RP": "up out away",
    "of": "of from",
    "at": "in at near behind with under",
}
CHOICES = {tag: words.split() for tag, words in WORDS.items()}


def draw_tree(rng: Random, longest: int) -> Pair:
    """Draw a sentence of at most that many words, 3 or more, and its tree in brackets."""
    for _ in range(MAX_TRIES):
        tree = Tree(TOP, (_sentence(rng),))
        words = tree.words()
        if len(words) <= longest:
            return Pair(" ".join(words), to_brackets(tree))
    tree = Tree(TOP, (Tree("S", (_pronoun(rng), Tree("VP", (_leaf(rng, "VBD"),)), _stop())),))
    return Pair(" ".join(tree.words()), to_brackets(tree))


def _leaf(rng: Random, tag: str, words: str | None = None) -> Tree:
    return Tree(tag, word=rng.choice(CHOICES[words or tag]))


def _stop() -> Tree:
    return Tree(".", word=".")


def _pronoun(rng: Random) -> Tree:
    return Tree("NP", (_leaf(rng, "PRP"),))


def _sentence(rng: Random) -> Tree:
    clause = (_noun_phrase(rng, 0), _verb_phrase(rng, 0))
    if rng.random() < 0.15:
        place = Tree("PP", (_leaf(rng, "IN", "at"), _noun_phrase(rng, 2)))
        return Tree("S", (place, Tree(",", word=","), *clause, _stop()))
    return Tree("S", (*clause, _stop()))


def _noun_phrase(rng: Random, depth: int) -> Tree:
    chance = rng.random()
    if chance < 0.15:
        return _pronoun(rng)
    if chance < 0.3:
        return Tree("NP", (_leaf(rng, "NNP"),))
    if depth < 3 and chance < 0.45:
        inner = Tree("PP", (_leaf(rng, "IN", "of"), _noun_phrase(rng, depth + 1)))
        return Tree("NP", (_base(rng), inner))
    if depth < 2 and chance < 0.52:
        both = (_base(rng), Tree("CC", word="and"), _base(rng))
        return Tree("NP", both)
    if depth < 2 and chance < 0.6:
        who = Tree("WHNP", (Tree("WDT", word="that"),))
        clause = Tree("S", (_verb_phrase(rng, depth + 1),))
        return Tree("NP", (_base(rng), Tree("SBAR", (who, clause))))
    return _base(rng)


def _base(rng: Random) -> Tree:
    adjectives = [_leaf(rng, "JJ") for _ in range(rng.choice((0, 0, 1, 2)))]
    if rng.random() < 0.3:
        return Tree("NP", (*adjectives, _leaf(rng, "NNS")))
    return Tree("NP", (_leaf(rng, "DT"), *adjectives, _leaf(rng, "NN")))


def _verb_phrase(rng: Random, depth: int) -> Tree:
    parts = [_leaf(rng, rng.choice(("VBZ", "VBD")))]
    if rng.random() < 0.15:
        parts.append(Tree("PRT", (_leaf(rng, "RP"),)))
    if rng.random() < 0.7:
        parts.append(_noun_phrase(rng, depth + 1))
    if depth < 3 and rng.random() < 0.4:
        parts.append(Tree("PP", (_leaf(rng, "IN", "at"), _noun_phrase(rng, depth + 1))))
    if rng.random() < 0.2:
        parts.append(Tree("ADVP", (_leaf(rng, "RB"),)))
    return Tree("VP", tuple(parts))
