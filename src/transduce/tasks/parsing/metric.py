"""Labelled bracketing as EVALB scores it, of trees in brackets."""

from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar

from transduce.errors import InputError
from transduce.tasks.base import AdditiveMetric, Scores
from transduce.trees.brackets import TreeError, parse_brackets
from transduce.trees.cleaning import cleaned
from transduce.trees.evalb import (
    COLLINS,
    SentenceCounts,
    compare,
    f1_of,
    has_tags,
    missing,
    percent,
    with_tags_of,
)
from transduce.trees.tree import Tree

_OF_ALL = f"brackets|prm:{COLLINS.name}|labelled|tags:of the reference"


class BracketF1(AdditiveMetric):
    """F1 of labelled brackets; beside it precision, recall, complete match, tagging accuracy.

    All are in per cent. "left out" counts sentences that EVALB takes for errors, or skips: no tree,
    other words than the reference has without punctuation, or none. "F1 of all" leaves out none:
    punctuation is what the reference tags so, and a tree that is none lacks all brackets.
    """

    name: ClassVar[str] = "F1"
    signature: ClassVar[str] = (
        f"EVALB|prm:{COLLINS.name}|labelled|tags:own, or of the reference where all are XX"
    )

    def counts(self, hypothesis: str, reference: str) -> tuple[float, ...]:
        """Count brackets, words and sentences; of a sentence that is left out, only that it is."""
        found, retagged = compared(hypothesis, reference)
        is_scored = found.status == "scored"
        return (
            found.matched,
            found.gold,
            found.test,
            found.is_complete,
            is_scored,
            found.right_tags,
            found.words,
            not is_scored,
            retagged.matched,
            retagged.gold,
            retagged.test,
        )

    def signature_of(self, name: str) -> str:
        """Return EVALB's signature, or that of the F1 which leaves out nothing."""
        return _OF_ALL if name == BracketF1OfAll.name else self.signature

    def length(self, reference: str) -> int:
        """Return the number of words of a tree, as EVALB counts them."""
        return compared("", reference)[0].length

    def scores(self, sums: Sequence[float]) -> Scores:
        """Divide as EVALB does; shares of nothing are 0, so that every score is a number."""
        matched, gold, test, complete, scored, right_tags, words, left_out, *of_all = sums
        return {
            "F1": _f1(matched, gold, test),
            "precision": _share(matched, test),
            "recall": _share(matched, gold),
            "complete": _share(complete, scored),
            "tagging": _share(right_tags, words),
            "left out": left_out,
            "F1 of all": _f1(*of_all),
        }


class BracketF1OfAll(BracketF1):
    """The F1 by which a run chooses its weights: none is flattered by what it leaves out."""

    name: ClassVar[str] = "F1 of all"
    signature: ClassVar[str] = _OF_ALL


@lru_cache(maxsize=50_000)
def compared(hypothesis: str, reference: str) -> tuple[SentenceCounts, SentenceCounts]:
    """Compare two trees in brackets as EVALB does, and with the reference's tags in both.

    Raises if the reference is no tree.
    """
    try:
        gold = cleaned(parse_brackets(reference))
    except TreeError as fault:
        raise InputError(f"the reference {reference[:60]!r} is no tree: {fault}") from fault
    ours = _tree_or_none(hypothesis)
    if ours is None:
        return compare(gold, None), missing(gold)
    retagged = compare(gold, with_tags_of(ours, gold))
    by_evalb = compare(gold, ours) if has_tags(ours) else retagged
    return by_evalb, retagged if retagged.status == "scored" else missing(gold)


def _f1(matched: float, gold: float, test: float) -> float:
    return f1_of(matched, gold, test) if gold + test else 0.0


def _share(part: float, whole: float) -> float:
    return percent(part, whole) if whole else 0.0


def _tree_or_none(text: str) -> Tree | None:
    try:
        return cleaned(parse_brackets(text))
    except TreeError:
        return None
