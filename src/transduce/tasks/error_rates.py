"""Metrics that count: exact answers, and edits to the reference in words or characters."""

from collections.abc import Sequence
from typing import ClassVar

from transduce.tasks.base import AdditiveMetric, Scores
from transduce.text.edit_distance import edit_distance


def percent(part: float, whole: float) -> float:
    """Return a share in per cent; where there is no whole, any part of it is 100."""
    if whole:
        return 100 * part / whole
    return 100.0 if part else 0.0


class ExactMatch(AdditiveMetric):
    """The share of outputs that equal their reference, in per cent."""

    name: ClassVar[str] = "exact"
    signature: ClassVar[str] = "exact match, cased"

    def counts(self, hypothesis: str, reference: str) -> tuple[float, ...]:
        """Return 1 for an exact answer, of 1."""
        return float(hypothesis == reference), 1.0

    def scores(self, sums: Sequence[float]) -> Scores:
        """Return the share of exact answers."""
        return {self.name: percent(*sums)}


class WordErrorRate(AdditiveMetric):
    """Edits between output and reference per word of the reference, in per cent, of all lines."""

    name: ClassVar[str] = "WER"
    signature: ClassVar[str] = "edits per reference|unit:words between spaces|case:mixed"
    higher_is_better: ClassVar[bool] = False

    def tokens(self, text: str) -> Sequence[str]:
        """Return what is compared: words between spaces."""
        return text.split()

    def counts(self, hypothesis: str, reference: str) -> tuple[float, ...]:
        """Return the edits and the length of the reference."""
        tokens = self.tokens(reference)
        return float(edit_distance(self.tokens(hypothesis), tokens)), float(len(tokens))

    def scores(self, sums: Sequence[float]) -> Scores:
        """Return all edits by the length of all references."""
        return {self.name: percent(*sums)}


class CharacterErrorRate(WordErrorRate):
    """The same in characters, spaces between words included."""

    name: ClassVar[str] = "CER"
    signature: ClassVar[str] = "edits per reference|unit:characters, spaces too|case:mixed"

    def tokens(self, text: str) -> Sequence[str]:
        """Return what is compared: characters, without spaces around the text."""
        return text.strip()
