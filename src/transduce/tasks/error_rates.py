"""Metrics that count: exact answers, and edits to the reference in words or characters."""

from collections.abc import Sequence
from typing import ClassVar

from transduce.tasks.base import AdditiveMetric, Scores


def edit_distance(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the fewest tokens to insert, delete or replace.

    A column of the table of distances is two integers, whose bits say where it rises and where it
    falls (Myers, 1999): so a token of `other` takes a few operations, however long `one` is.
    """
    if not one:
        return len(other)
    places: dict[str, int] = {}
    for place, token in enumerate(one):
        places[token] = places.get(token, 0) | 1 << place
    every = (1 << len(one)) - 1
    rises, falls, distance = every, 0, len(one)
    for token in other:
        same = places.get(token, 0)
        is_diagonal = (((same & rises) + rises) ^ rises) | same | falls
        more, fewer = falls | ~(is_diagonal | rises), rises & is_diagonal
        distance += (more >> len(one) - 1 & 1) - (fewer >> len(one) - 1 & 1)
        more, fewer = more << 1 | 1, fewer << 1
        rises, falls = (fewer | ~(is_diagonal | more)) & every, more & is_diagonal & every
    return distance


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
