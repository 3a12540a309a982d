"""What tokens are translated by: the target tokens that each source token is linked with most."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transduce.data.alignment.aligner import Aligner
from transduce.data.alignment.pair_table import Keys, pair_keys
from transduce.data.encoding.side import Side

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class LinkCounts:
    """How often each pair of tokens is linked, and how often each target token occurs."""

    keys: Keys  # of the pairs of tokens, ascending
    links: Counts  # of each pair
    occurrences: Counts  # [V] of the target

    @classmethod
    def of(
        cls, aligner: Aligner, chunks: Iterable[tuple[Side, Side]], tgt_size: int
    ) -> "LinkCounts":
        """Link each target token with its likeliest source token, and count."""
        keys, links = np.empty(0, np.uint64), np.empty(0, np.int64)
        occurrences = np.zeros(tgt_size, np.int64)
        for src, tgt in chunks:
            occurrences += np.bincount(tgt.ids, minlength=tgt_size)
            found = _linked(aligner, src, tgt)
            keys, places = np.unique(np.concatenate([keys, found]), return_inverse=True)
            weights = np.concatenate([links, np.ones(found.size, np.int64)])
            links = np.bincount(places, weights, minlength=keys.size).astype(np.int64)
        return cls(keys, links, occurrences)

    def most_linked(self, count: int, src_size: int) -> tuple[Counts, Counts]:
        """Return the target tokens that each source token is linked with most, at most `count`.

        Token n has those from `starts[n]` up to `starts[n + 1]`: [V + 1], [N].
        """
        src = (self.keys >> np.uint64(32)).astype(np.int64)
        tgt = (self.keys & np.uint64(2**32 - 1)).astype(np.int64)
        order = np.lexsort((tgt, -self.links, src))
        src, tgt = src[order], tgt[order]
        rank = np.arange(src.size) - np.searchsorted(src, src)
        kept = rank < count
        starts = np.searchsorted(src[kept], np.arange(src_size + 1))
        return starts, tgt[kept]

    def most_frequent(self, count: int) -> Counts:
        """Return the most frequent target tokens, at most `count`, ascending."""
        order = np.argsort(-self.occurrences, kind="stable")[:count]
        return np.sort(order[self.occurrences[order] > 0])


def _linked(aligner: Aligner, src: Side, tgt: Side) -> Keys:
    """Return the keys of all links of some pairs."""
    numbers = aligner.likeliest_sources(src, tgt).astype(np.int64)
    starts = np.repeat(np.cumsum(src.lengths) - src.lengths, tgt.lengths)
    is_linked = numbers > 0
    sources = src.ids[(starts + numbers - 1)[is_linked]]
    return pair_keys(sources, tgt.ids[is_linked])
