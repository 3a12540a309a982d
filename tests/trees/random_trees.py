"""Random trees, and pairs of them over the same words."""

from collections.abc import Sequence
from itertools import pairwise
from random import Random

from transduce.trees.tree import TOP, Tree

LABELS = ("S", "NP", "VP", "PP", "ADVP", "PRT", "SBAR")
TAGS = ("NN", "VB", "DT", "IN", ",", ".", ":", "``", "''", "-LRB-")


def random_tree(rng: Random, words: Sequence[str], tags: Sequence[str]) -> Tree:
    """Draw a tree over these words, with chains of single children."""

    def node(first: int, end: int, depth: int) -> Tree:
        if end - first == 1 and (depth > 6 or rng.random() < 0.6):
            return Tree(tags[first], word=words[first])
        if end - first == 1 or (depth < 20 and rng.random() < 0.15):
            return Tree(rng.choice(LABELS), (node(first, end, depth + 1),))
        pieces = rng.randint(2, min(4, end - first))
        cuts = [first, *sorted(rng.sample(range(first + 1, end), pieces - 1)), end]
        return Tree(rng.choice(LABELS), tuple(node(a, b, depth + 1) for a, b in pairwise(cuts)))

    return Tree(TOP, (node(0, len(words), 0),))


def random_sentence(rng: Random, *, longest: int = 12) -> tuple[list[str], list[str]]:
    """Draw words and tags."""
    length = rng.randint(1, longest)
    return [rng.choice("abcdefg") for _ in range(length)], rng.choices(TAGS, k=length)


def random_pair(rng: Random) -> tuple[Tree, Tree]:
    """Draw a reference and a parser's tree, sometimes with another tag or another word."""
    words, tags = random_sentence(rng, longest=20)
    gold = random_tree(rng, words, tags)
    others = [tag if rng.random() < 0.97 else rng.choice(TAGS) for tag in tags]
    if rng.random() < 0.03:
        words = [*words[:-1], "other"]
    return gold, random_tree(rng, words, others)
