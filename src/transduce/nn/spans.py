"""Sentences that lie end to end in one row, with no padding between them.

A query may look at a run of keys: those of one sentence. Runs follow one another as the queries do,
so neighbouring queries look at neighbouring keys, and a kernel need not touch any others.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Spans:
    """Which keys each query may look at, and by which queries each key is seen.

    From the first to before the end, in int32; neither falls from one query or key to the next.
    """

    first: Tensor  # [T]
    end: Tensor  # [T]
    seen_first: Tensor  # [S]
    seen_end: Tensor  # [S]

    def allowed(self) -> Tensor:
        """Say the same as a mask; a query whose run is empty may look at everything."""
        keys = torch.arange(self.seen_first.size(0), device=self.first.device)  # [S]
        within = (keys >= self.first[:, None]) & (keys < self.end[:, None])  # [T, S]
        return within | (self.first >= self.end)[:, None]  # [T, S]


@dataclass(frozen=True)
class Layout:
    """Where the sentences of a row of source tokens, and of one of target tokens, lie.

    Of each token, in int32: where its sentence starts and ends in its own row, and where that
    sentence's translation starts and ends in the other. What fills up a row has an empty sentence.
    """

    src: Tensor  # [4, S]
    tgt: Tensor  # [4, T]

    @property
    def src_positions(self) -> Tensor:
        """The place of each source token in its sentence."""
        return _positions(self.src)

    @property
    def tgt_positions(self) -> Tensor:
        """The place of each target token in its sentence."""
        return _positions(self.tgt)

    @property
    def src_to_src(self) -> Spans:
        """Each source token may look at its sentence."""
        return Spans(self.src[0], self.src[1], self.src[0], self.src[1])

    @property
    def tgt_to_tgt(self) -> Spans:
        """Each target token may look at its sentence."""
        return Spans(self.tgt[0], self.tgt[1], self.tgt[0], self.tgt[1])

    @property
    def tgt_to_src(self) -> Spans:
        """Each target token may look at what its sentence translates."""
        return Spans(self.tgt[2], self.tgt[3], self.src[2], self.src[3])


def _positions(bounds: Tensor) -> Tensor:
    first, end = bounds[0], bounds[1]
    places = torch.arange(bounds.size(1), device=bounds.device)
    return (places - first) * (first < end)  # [T]
