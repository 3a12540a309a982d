"""Compare our bracket scores with EVALB and PYEVALB, sentence by sentence.

    python benchmarks/compare_evalb.py [TREES.mrg …] [--evalb FOLDER] [--random 3000]

FOLDER holds the program `evalb`, compiled from its source, and its COLLINS.prm. PYEVALB is compared
with if it is installed (`pip install PYEVALB`). Pairs are random trees, and the trees of the files
with brackets relabelled, taken out and put in.

PYEVALB 0.1.3 reads no parameter file: it deletes nothing, and ADVP is not PRT. So it is compared
with our counts under empty parameters, on pairs without the same bracket twice: of these it counts
one match, where EVALB counts all.
"""

import argparse
import importlib
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from transduce.data.corpus import read_side
from transduce.trees.brackets import parse_brackets, to_brackets
from transduce.trees.evalb import Parameters, SentenceCounts, Status, compare
from transduce.trees.tree import TOP, Tree

LABELS = ("S", "NP", "VP", "PP", "ADVP", "PRT", "ADJP", "SBAR")
TAGS = ("NN", "VB", "DT", ",", ".", ":", "``", "''", "-LRB-", "IN")
STATUSES: tuple[Status, ...] = ("scored", "error", "skipped")
NOTHING = Parameters("none", frozenset())
MAX_CHARS, MAX_WORDS, MAX_BRACKETS, MAX_WORD_CHARS = 4_900, 190, 190, 90
"""What fits into EVALB's arrays."""

TreePair = tuple[Tree, Tree]
ROW = re.compile(
    r"\s*\d+\s+(\d+)\s+(\d)\s+[\d.]+\s+[\d.]+\s+(\d+)\s+(\d+)\s+(\d+)\s+\d+\s+(\d+)\s+(\d+)\s+[\d.]+$"
)


def main() -> None:
    """Compare random pairs and those of the given treebanks."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("trees", type=Path, nargs="*")
    parser.add_argument("--evalb", type=Path, default=None)
    parser.add_argument("--random", type=int, default=3_000)
    arguments = parser.parse_args()
    rng = Random(1)  # noqa: S311 - a comparison, not a secret
    sets = {"random": [random_pair(rng) for _ in range(arguments.random)]}
    for path in arguments.trees:
        trees = map(parse_brackets, read_side(path, "tgt"))
        sets[str(path)] = [(tree, changed(rng, tree)) for tree in trees]
    for name, pairs in sets.items():
        if arguments.evalb is not None:
            fitting = [pair for pair in pairs if all(map(fits, pair))]
            print(name, "EVALB:", described(differing_from_evalb(fitting, arguments.evalb)))
        distinct = [pair for pair in pairs if all(map(has_distinct_brackets, pair))]
        print(name, "PYEVALB:", described(differing_from_pyevalb(distinct)))


def described(equal: Iterable[bool]) -> str:
    """Count the pairs, and those that differ."""
    found = list(equal)
    return f"{len(found):,} pairs, {found.count(False):,} differ"


def differing_from_evalb(pairs: Sequence[TreePair], folder: Path) -> Iterator[bool]:
    """Yield for each pair whether all counts agree."""
    with tempfile.TemporaryDirectory() as made:
        files = [Path(made, name) for name in ("gold", "test")]
        for side, path in enumerate(files):
            path.write_text("".join(f"{to_brackets(pair[side])}\n" for pair in pairs))
        options: list[str | Path] = ["-p", folder / "COLLINS.prm", "-e", str(10**8)]
        command = [folder / "evalb", *options, *files]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [found.groups() for line in done.stdout.splitlines() if (found := ROW.match(line))]
    for row, (gold, test) in zip(rows, pairs, strict=True):
        length, status, *counts = map(int, row)
        theirs = SentenceCounts(STATUSES[status], length, *(counts if not status else []))
        yield theirs == compare(gold, test)


def differing_from_pyevalb(pairs: Iterable[TreePair]) -> Iterator[bool]:
    """Yield for each pair whether all counts agree."""
    scorer: Any = importlib.import_module("PYEVALB.scorer")
    parser: Any = importlib.import_module("PYEVALB.parser")
    for gold, test in pairs:
        ours = compare(gold, test, NOTHING)
        trees = (parser.create_from_bracket_string(to_brackets(tree)) for tree in (gold, test))
        try:
            found = scorer.Scorer().score_trees(*trees)
        except scorer.ScoreException:
            yield ours.status != "scored"
            continue
        theirs = (found.matched_brackets, found.gold_brackets, found.test_brackets)
        tags = (found.words, found.correct_tags)
        yield (*theirs, *tags) == (ours.matched, ours.gold, ours.test, ours.words, ours.right_tags)


def fits(tree: Tree) -> bool:
    """Return whether EVALB can hold a tree."""
    words = tree.words()
    brackets = sum(not is_complete for _, is_complete in tree.walk())
    return (
        len(to_brackets(tree)) < MAX_CHARS
        and len(words) < MAX_WORDS
        and brackets < MAX_BRACKETS
        and all(len(word.encode()) < MAX_WORD_CHARS for word in words)
    )


def has_distinct_brackets(tree: Tree) -> bool:
    """Return whether no label stands twice over the same words, and no word has PYEVALB's mark."""
    if any("_" in word for word in tree.words()):
        return False
    spans: Counter[tuple[str, int, int]] = Counter()
    starts: list[int] = []
    place = 0
    for node, is_complete in tree.walk():
        if node.word is not None:
            place += 1
        elif not is_complete:
            starts.append(place)
        else:
            spans[node.label, starts.pop(), place] += 1
    return max(spans.values(), default=0) < 2


def random_pair(rng: Random) -> TreePair:
    """Draw two trees, mostly over the same words."""
    words = [rng.choice("abcdefg") for _ in range(rng.randint(1, 20))]
    tags = [rng.choice(TAGS) for _ in words]
    others = [tag if rng.random() < 0.97 else rng.choice(TAGS) for tag in tags]
    test = words if rng.random() < 0.97 else words[:-1] or ["other"]
    return random_tree(rng, words, tags), random_tree(rng, test, others[: len(test)])


def random_tree(rng: Random, words: Sequence[str], tags: Sequence[str]) -> Tree:
    """Draw a tree over these words."""

    def node(first: int, end: int, depth: int) -> Tree:
        if end - first == 1 and (depth > 8 or rng.random() < 0.6):
            return Tree(tags[first], word=words[first])
        if end - first == 1 or (depth < 20 and rng.random() < 0.15):
            return Tree(rng.choice(LABELS), (node(first, end, depth + 1),))
        pieces = rng.randint(2, min(4, end - first))
        cuts = [first, *sorted(rng.sample(range(first + 1, end), pieces - 1)), end]
        return Tree(rng.choice(LABELS), tuple(node(a, b, depth + 1) for a, b in pairwise(cuts)))

    return Tree(TOP, (node(0, len(words), 0),))


def changed(rng: Random, tree: Tree) -> Tree:
    """Relabel, take out and put in some brackets, and change some tags."""
    levels: list[list[Tree]] = [[]]
    for node, is_complete in tree.walk():
        if node.word is not None:
            levels[-1].append(node if rng.random() < 0.98 else Tree("NN", word=node.word))
        elif not is_complete:
            levels.append([])
        else:
            children = tuple(levels.pop())
            levels[-1] += _changed(rng, node, children, is_root=node is tree)
    return levels[0][0]


def _changed(
    rng: Random, node: Tree, children: tuple[Tree, ...], *, is_root: bool
) -> tuple[Tree, ...]:
    chance = 1.0 if is_root else rng.random()
    if chance < 0.1:
        return children
    if chance < 0.2:
        return (Tree("NP", children),)
    if chance < 0.25:
        return (Tree(node.label, (Tree("PRT", children),)),)
    return (Tree(node.label, children),)


if __name__ == "__main__":
    main()
