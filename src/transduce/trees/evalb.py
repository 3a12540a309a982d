"""Labelled bracketing as EVALB counts it, by default with its parameters COLLINS.prm.

Words with the tags of punctuation are taken out first, in either tree by its own tags. If the trees
then have other words, EVALB calls that an error and leaves the sentence out of all numbers; if the
parser's tree has no words, EVALB skips it. A bracket counts unless it is empty or labelled TOP; it
matches one of the same label (ADVP and PRT are the same) over the same words, each at most once.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Literal

from transduce.trees.linearise import ANY_TAG
from transduce.trees.tree import Tree

Status = Literal["scored", "error", "skipped"]
Bracket = tuple[str, int, int]
"""A label, its first word, and the word after its last."""

SHORT_WORDS = 40
"""EVALB shows the score of sentences up to this length beside that of all."""


@dataclass(frozen=True)
class Parameters:
    """What EVALB's parameter file says."""

    name: str
    deleted: frozenset[str]  # tags whose words are taken out, and labels that do not count
    equal: tuple[tuple[str, str], ...] = ()  # pairs of labels

    def canonical(self, label: str) -> str:
        """Return the same label for those that are equal."""
        return self._first_of.get(label, label)

    @cached_property
    def _first_of(self) -> dict[str, str]:
        return {second: first for first, second in self.equal}


COLLINS = Parameters(
    "COLLINS",
    frozenset({"TOP", "-NONE-", ",", ":", "``", "''", "."}),
    (("ADVP", "PRT"),),
)


@dataclass(frozen=True)
class SentenceCounts:
    """What EVALB prints for a sentence; zeros unless it is scored."""

    status: Status
    length: int  # words of the reference, punctuation included
    matched: int = 0
    gold: int = 0  # brackets of the reference
    test: int = 0  # brackets of the parser
    words: int = 0  # without punctuation
    right_tags: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether all brackets match."""
        return self.status == "scored" and self.matched == self.gold == self.test


@dataclass(frozen=True)
class BracketScores:
    """EVALB's summary, in per cent; NaN where there is nothing to count."""

    precision: float
    recall: float
    f1: float
    complete: float  # sentences
    tagging: float  # words
    scored: int  # sentences
    errors: int
    skipped: int


def compare(gold: Tree, test: Tree | None, parameters: Parameters = COLLINS) -> SentenceCounts:
    """Compare a parser's tree, or None if it is no tree, with the reference."""
    reference = _Kept.of(gold, parameters)
    length = sum(leaf.label != "-NONE-" for leaf in gold.leaves())
    if test is None:
        return SentenceCounts("error", length)
    ours = _Kept.of(test, parameters)
    if not ours.words:
        return SentenceCounts("skipped", length)
    if ours.words != reference.words:
        return SentenceCounts("error", length)
    right = map(str.__eq__, *(map(parameters.canonical, k.tags) for k in (reference, ours)))
    return SentenceCounts(
        "scored",
        length,
        matched=(Counter(reference.brackets) & Counter(ours.brackets)).total(),
        gold=len(reference.brackets),
        test=len(ours.brackets),
        words=len(ours.words),
        right_tags=sum(right),
    )


def missing(gold: Tree, parameters: Parameters = COLLINS) -> SentenceCounts:
    """Count the brackets of the reference as not found."""
    reference = _Kept.of(gold, parameters)
    length = sum(leaf.label != "-NONE-" for leaf in gold.leaves())
    return SentenceCounts("error", length, gold=len(reference.brackets))


def has_tags(tree: Tree) -> bool:
    """Return whether tags are more than placeholders."""
    return any(leaf.label != ANY_TAG for leaf in tree.leaves())


def summary(sentences: Iterable[SentenceCounts]) -> BracketScores:
    """Sum up sentences as EVALB does."""
    counted = list(sentences)
    numbers = [field.name for field in fields(SentenceCounts) if field.name != "status"]
    total = {name: sum(getattr(one, name) for one in counted) for name in numbers}
    statuses = Counter(one.status for one in counted)
    precision = percent(total["matched"], total["test"])
    recall = percent(total["matched"], total["gold"])
    return BracketScores(
        precision,
        recall,
        f1_of(total["matched"], total["gold"], total["test"]),
        percent(sum(one.is_complete for one in counted), statuses["scored"]),
        percent(total["right_tags"], total["words"]),
        statuses["scored"],
        statuses["error"],
        statuses["skipped"],
    )


def f1_of(matched: float, gold: float, test: float) -> float:
    """Return the harmonic mean of precision and recall, in per cent; NaN without brackets."""
    return percent(2 * matched, gold + test)


def with_tags_of(test: Tree, gold: Tree) -> Tree:
    """Give a tree the tags of the reference, if it has as many words.

    EVALB needs tags to know what is punctuation.
    """
    tags = [leaf.label for leaf in gold.leaves()]
    if len(test.leaves()) != len(tags):
        return test
    levels: list[list[Tree]] = [[]]
    left = iter(tags)
    for node, is_complete in test.walk():
        if node.word is not None:
            levels[-1].append(Tree(next(left), word=node.word))
        elif not is_complete:
            levels.append([])
        else:
            children = tuple(levels.pop())
            levels[-1].append(Tree(node.label, children))
    return levels[0][0]


def percent(part: float, whole: float) -> float:
    """Return a share in per cent; NaN of nothing."""
    return 100 * part / whole if whole else float("nan")


@dataclass(frozen=True)
class _Kept:
    """What is left of a tree without punctuation."""

    words: list[str]
    tags: list[str]
    brackets: list[Bracket]

    @classmethod
    def of(cls, tree: Tree, parameters: Parameters) -> "_Kept":
        found = cls([], [], [])
        starts: list[int] = []
        for node, is_complete in tree.walk():
            if node.word is not None:
                if node.label not in parameters.deleted:
                    found.words.append(node.word)
                    found.tags.append(node.label)
            elif not is_complete:
                starts.append(len(found.words))
            else:
                found._close(node.label, starts.pop(), parameters)
        return found

    def _close(self, label: str, start: int, parameters: Parameters) -> None:
        end = len(self.words)
        short = label.replace("=", "-").partition("-")[0]
        if start < end and short not in parameters.deleted:
            self.brackets.append((parameters.canonical(short), start, end))
