"""Labelled bracketing as EVALB scores it, of trees in brackets."""

from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar

from transduce.errors import InputError
from transduce.tasks.base import AdditiveMetric, Scores
from transduce.trees.brackets import TreeError, parse_brackets
from transduce.trees.cleaning import cleaned
from transduce.trees.evalb import COLLINS, SentenceCounts, compare, f1_of, percent, with_tags_of
from transduce.trees.tree import Tree


class BracketF1(AdditiveMetric):
    """F1 of labelled brackets; beside it precision, recall, complete match, tagging accuracy.

    All are in per cent. "left out" counts sentences that EVALB takes for errors, or skips: no tree,
    other words than the reference has without punctuation, or none.
    """

    name: ClassVar[str] = "F1"
    signature: ClassVar[str] = (
        f"EVALB|prm:{COLLINS.name}|labelled|tags:own, or of the reference where all are XX"
    )

    def counts(self, hypothesis: str, reference: str) -> tuple[float, ...]:
        """Count brackets, words and sentences; of a sentence that is left out, only that it is."""
        found = compared(hypothesis, reference)
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
        )

    def scores(self, sums: Sequence[float]) -> Scores:
        """Divide as EVALB does; where nothing is scored, F1 is 0 and the others are no numbers."""
        matched, gold, test, complete, scored, right_tags, words, left_out = sums
        return {
            "F1": f1_of(matched, gold, test) if gold + test else 0.0,
            "precision": percent(matched, test),
            "recall": percent(matched, gold),
            "complete": percent(complete, scored),
            "tagging": percent(right_tags, words),
            "left out": left_out,
        }


@lru_cache(maxsize=50_000)
def compared(hypothesis: str, reference: str) -> SentenceCounts:
    """Compare two trees in brackets; raise if the reference is none."""
    try:
        gold = cleaned(parse_brackets(reference))
    except TreeError as fault:
        raise InputError(f"the reference {reference[:60]!r} is no tree: {fault}") from fault
    ours = _tree_or_none(hypothesis)
    return compare(gold, None if ours is None else with_tags_of(ours, gold))


def _tree_or_none(text: str) -> Tree | None:
    try:
        return cleaned(parse_brackets(text))
    except TreeError:
        return None
