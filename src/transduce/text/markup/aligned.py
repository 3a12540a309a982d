"""Which words of a text and of its translation belong together, as weights between them."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from transduce.text.markup.words import Span, cut_spans

Weights = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class AlignedPiece:
    """Weights between the words of one piece of a text and those of its translation."""

    first_source: int  # numbers of the first words of both
    first_target: int
    weights: Weights  # [T, S]; a row is how a word of the translation depends on the source

    @cached_property
    def sums(self) -> Weights:
        """The weights summed over all words before one, [T, S + 1]."""
        n_target, n_source = self.weights.shape
        sums = np.zeros((n_target, n_source + 1))
        np.cumsum(self.weights, axis=1, out=sums[:, 1:])
        return sums

    @property
    def last_source(self) -> int:
        """The number after its last word of the source."""
        return self.first_source + int(self.weights.shape[1])


@dataclass(frozen=True)
class AlignedWords:
    """The words of a text and of its translation by the characters that they span."""

    source: Sequence[Span]
    target: Sequence[Span]
    pieces: Sequence[AlignedPiece]  # in order, of all words

    @cached_property
    def partners(self) -> NDArray[np.int64]:
        """For each word of the translation the source word of the largest weight, or -1."""
        found = np.full(len(self.target), -1, dtype=np.int64)
        for piece in self.pieces:
            n_target, n_source = piece.weights.shape
            if n_source:
                best = piece.weights.argmax(axis=1) + piece.first_source
                found[piece.first_target : piece.first_target + n_target] = best
        return found

    def shares(self, words: range, region: range) -> tuple[int, Weights]:
        """Return how much words of a region depend on some words of the source.

        These are consecutive: the number of the first, and the weights. For others it is 0.
        """
        pieces = self._pieces_of(words)
        if not pieces:
            return region.start, np.zeros(0)
        found = []
        for piece in pieces:
            first, last = (
                max(0, min(word, piece.last_source) - piece.first_source)
                for word in (words.start, words.stop)
            )
            found.append(piece.sums[:, last] - piece.sums[:, first])
        start = pieces[0].first_target
        low, high = max(start, region.start), max(start, region.stop)
        return low, np.concatenate(found)[low - start : high - start]

    def with_cuts(self, cuts: Collection[int]) -> Self:
        """Divide words of the translation at some characters; their parts have the same weights."""
        target = cut_spans(self.target, cuts)
        if len(target) == len(self.target):
            return self
        starts = [bisect_left(target, word) for word in self.target]
        pieces = []
        for piece in self.pieces:
            before = piece.first_target
            its = [*starts[before : before + len(piece.weights) + 1], len(target)]
            counts = np.diff(its[: len(piece.weights) + 1])
            weights = np.repeat(piece.weights, counts, axis=0)
            pieces.append(AlignedPiece(piece.first_source, its[0], weights))
        return replace(self, target=target, pieces=pieces)

    def region(self, words: range) -> range:
        """Return the words of the translation of the pieces that words of the source are in."""
        pieces = self._pieces_of(words)
        if not pieces:
            return range(0)
        return range(pieces[0].first_target, pieces[-1].first_target + len(pieces[-1].weights))

    def _pieces_of(self, words: range) -> Sequence[AlignedPiece]:
        first = bisect_right(self.pieces, words.start, key=lambda piece: piece.last_source)
        last = bisect_left(self.pieces, words.stop, key=lambda piece: piece.first_source)
        return self.pieces[first:last]


def weights_by_place(n_target: int, n_source: int) -> Weights:
    """Align words by their place alone: the first with the first, the last with the last."""
    weights = np.zeros((n_target, n_source))
    if n_source:
        rows = np.arange(n_target)
        weights[rows, rows * n_source // max(1, n_target)] = 1
    return weights
