"""Pairs of a store with links, cut into words, and phrases that are drawn from them."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from transduce.data.batching import splitmix64
from transduce.data.encoding.side import Side
from transduce.data.store import Store
from transduce.data.terms.phrases import (
    Numbers,
    Phrases,
    SideWords,
    WordCutter,
    consistent_phrases,
)

MAX_TERMS = 3
"""Phrases that are drawn from a sentence, at most."""


@dataclass(frozen=True)
class PairChunk:
    """Some pairs of a store, cut into words, and the phrases that translate each other."""

    src: SideWords
    tgt: SideWords
    src_lengths: Numbers
    links: Side
    phrases: Phrases

    @classmethod
    def of(cls, store: Store, pairs: Numbers, cutters: tuple[WordCutter, WordCutter]) -> Self:
        """Cut the pairs with the given numbers."""
        assert store.links is not None, "phrases are found by links"
        src, tgt, links = (
            Side(side.gather(pairs), side.lengths_of(pairs))
            for side in (store.src, store.tgt, store.links)
        )
        starts = np.repeat(np.cumsum(src.lengths) - src.lengths, tgt.lengths)
        numbers = links.ids.astype(np.int64) - 1
        words = cutters[0].cut(src), cutters[1].cut(tgt)
        phrases = consistent_phrases(*words, np.where(numbers >= 0, starts + numbers, -1))
        return cls(*words, src.lengths, links, phrases)

    def keys(self, phrases: Phrases, states: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return a random number for each phrase, by its pair and its place in the source."""
        sentences = self.src.sentences[phrases.src_first]
        places = (phrases.src_first - self.src.first[sentences]) * (MAX_TERMS + 1)
        places += phrases.src_last - phrases.src_first
        return splitmix64(states[sentences] + splitmix64(places.astype(np.uint64) + np.uint64(1)))


def drawn_phrases(chunk: PairChunk, found: Phrases, states: NDArray[np.uint64]) -> Phrases:
    """Draw one to three phrases of each sentence that do not overlap, in order of their places."""
    sentences = chunk.src.sentences[found.src_first]
    wanted = 1 + (splitmix64(states) >> np.uint64(33)).astype(np.int64) * MAX_TERMS // 2**31
    left = np.lexsort((chunk.keys(found, states), sentences))
    chosen = [np.empty(0, dtype=np.int64)]
    for count in range(1, MAX_TERMS + 1):
        is_first = np.append(True, np.diff(sentences[left]) > 0)[: left.size]
        taken = left[is_first]
        chosen.append(taken)
        limits = np.zeros((2, states.size), dtype=np.int64)
        limits[:, sentences[taken]] = found.src_first[taken], found.src_last[taken]
        first, last = limits[:, sentences[left]]
        apart = (found.src_last[left] < first) | (found.src_first[left] > last)
        left = left[apart & (wanted[sentences[left]] > count)]
    together = np.concatenate(chosen)
    return found.only(together[np.argsort(found.src_first[together])])


def concatenated(parts: list[Side]) -> Side:
    """Return the sentences of all parts, in order."""
    return Side(
        np.concatenate([part.ids for part in parts] or [np.empty(0, dtype=np.uint16)]),
        np.concatenate([np.empty(0, dtype=np.int64), *(part.lengths for part in parts)]),
    )
