"""The store of an epoch with hints in a share of its sources (Dinu et al., 2019).

A hint stands after a term of the source: a marker, the term's translation, a marker. All of it
follows from the store, the rate, the seed and the epoch, so a resumed run has the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from transduce.data.batching import hash_noise, splitmix64
from transduce.data.encoding.side import Side
from transduce.data.noise.epochs import EpochNoise, sampled_pairs
from transduce.data.noise.noised import NoisedSentences
from transduce.data.store import Store
from transduce.data.terms.forms import SeenWords, WordForms, seen_words
from transduce.data.terms.phrases import (
    Numbers,
    Phrases,
    SideWords,
    WordCutter,
    consistent_phrases,
)
from transduce.errors import ConfigError
from transduce.text.tokenizer import Tokenizer

MAX_TERMS = 3
"""Of a sentence."""
OTHER_FORMS = 0.3
"""The share of hints that name another form of the word than the target has, where there is one."""
FORM_PAIRS = 100_000
"""Forms of words are counted in at most this many pairs, spread evenly over the store."""
CHUNK_PAIRS = 20_000
MAX_LINKED = 2**16 - 2
"""Links are numbers of two bytes."""


@dataclass(frozen=True)
class _Chunk:
    """Some pairs of a store, cut into words, and the phrases that translate each other."""

    src: SideWords
    tgt: SideWords
    src_lengths: Numbers
    links: Side
    phrases: Phrases


class EpochTerms:
    """Puts hints into a share of the sources of a store with links, others in each epoch."""

    def __init__(
        self,
        rate: float,
        tokenizer: Tokenizer,
        train: Store,
        *,
        noise: EpochNoise | None = None,
        keeps_links: bool,
    ) -> None:
        """Take the share of pairs, and the store, in which other forms of words are counted.

        noise: is put in first; pairs that get some have no links, and so no hints.
        keeps_links: whether the stores of epochs have links too.
        """
        vocabulary = tokenizer.source
        if vocabulary.term_markers is None:
            raise ConfigError(
                "data.terms: this vocabulary has no markers of terms, so hints cannot be learnt: "
                "leave out data.terms, or data.tokenizer and run.init"
            )
        assert vocabulary is tokenizer.target, "data.terms is for one vocabulary of both sides"
        self._rate = rate
        self._markers = vocabulary.term_markers
        self._cutter = WordCutter(vocabulary)
        self._noise = noise
        self._keeps_links = keeps_links
        self._forms = WordForms.of(list(self._seen(train)), train.tgt.ids.dtype)

    def store(self, clean: Store, *, seed: int, epoch: int, max_lengths: tuple[int, int]) -> Store:
        """Return the store of an epoch.

        A source stays as it is if its hints make it longer than the tokens allowed.
        """
        if self._noise is not None:
            clean = self._noise.store(clean, seed=seed, epoch=epoch, max_lengths=max_lengths)
        pairs, states = self._drawn(len(clean), seed, epoch)
        made = [
            self._hinted(
                clean, pairs[start : start + CHUNK_PAIRS], states[start : start + CHUNK_PAIRS]
            )
            for start in range(0, pairs.size, CHUNK_PAIRS)
        ]
        src, links = (_concatenated([one[side] for one in made]) for side in (0, 1))
        fits = src.lengths <= min(max_lengths[0], MAX_LINKED)
        places = np.full(len(clean), -1, dtype=np.int32)
        places[pairs[fits]] = np.arange(int(fits.sum()), dtype=np.int32)
        assert clean.links is not None, "terms are found by links"
        kept = NoisedSentences.over(clean.links, links.only(fits), places)
        return replace(
            clean,
            src=NoisedSentences.over(clean.src, src.only(fits), places),
            links=kept if self._keeps_links else None,
        )

    def sampled_lengths(
        self, clean: Store, pairs: NDArray[np.int64], *, seed: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the lengths of both sides of some of these pairs, with hints, without EOS."""
        chosen = sampled_pairs(pairs)
        if self._noise is not None:
            src, tgt = self._noise.sampled_lengths(clean, pairs, seed=seed)
        else:
            src, tgt = clean.src.lengths_of(chosen), clean.tgt.lengths_of(chosen)
        drawn, states = self._drawn(len(clean), seed, epoch=0)
        is_chosen = np.isin(drawn, chosen)
        drawn, states = drawn[is_chosen], states[is_chosen]
        hinted, _ = self._hinted(clean, drawn, states)
        src[np.searchsorted(chosen, drawn)] += hinted.lengths - clean.src.lengths_of(drawn)
        return src, tgt

    def close(self) -> None:
        """End the processes that make noise."""
        if self._noise is not None:
            self._noise.close()

    def _drawn(self, count: int, seed: int, epoch: int) -> tuple[Numbers, NDArray[np.uint64]]:
        """Draw the pairs that get hints in an epoch, and where the draws of each begin."""
        chance = hash_noise(count, seed, epoch ^ 1 << 52) / 2.0**64
        pairs = np.flatnonzero(chance < self._rate)
        return pairs, hash_noise(count, seed, epoch ^ 1 << 53)[pairs]

    def _seen(self, train: Store) -> Iterator[SeenWords]:
        """Yield the words that translate each other."""
        every = np.arange(0, len(train), -(-len(train) // FORM_PAIRS) or 1)
        for start in range(0, every.size, CHUNK_PAIRS):
            chunk = self._chunk(train, every[start : start + CHUNK_PAIRS])
            yield seen_words(chunk.src, chunk.tgt, chunk.phrases)

    def _chunk(self, store: Store, pairs: Numbers) -> _Chunk:
        assert store.links is not None, "terms are found by links"
        src, tgt, links = (
            Side(side.gather(pairs), side.lengths_of(pairs))
            for side in (store.src, store.tgt, store.links)
        )
        starts = np.repeat(np.cumsum(src.lengths) - src.lengths, tgt.lengths)
        numbers = links.ids.astype(np.int64) - 1
        words = self._cutter.cut(src), self._cutter.cut(tgt)
        phrases = consistent_phrases(*words, np.where(numbers >= 0, starts + numbers, -1))
        return _Chunk(*words, src.lengths, links, phrases)

    def _hinted(
        self, store: Store, pairs: Numbers, states: NDArray[np.uint64]
    ) -> tuple[Side, Side]:
        """Return the sources of pairs with hints, and their links, which count tokens of these."""
        chunk = self._chunk(store, pairs)
        chosen = chunk.phrases.only(_drawn_phrases(chunk, states))
        hints = self._hints(chunk, chosen, states)
        sums = np.concatenate([[0], np.cumsum(hints.lengths)])
        ends = chunk.src.ends[chosen.src_last]
        ids = np.insert(chunk.src.ids, np.repeat(ends, hints.lengths), hints.ids)
        sentences = chunk.src.sentences[chosen.src_first]
        added = np.bincount(sentences, hints.lengths, chunk.src_lengths.size).astype(np.int64)
        # The tokens that stand before each linked one: those of all hints, less other sentences'.
        starts = np.cumsum(chunk.src_lengths) - chunk.src_lengths
        starts = np.repeat(starts, chunk.links.lengths)
        numbers = chunk.links.ids.astype(np.int64)
        before, earlier = (
            sums[np.searchsorted(ends, place, side="right")]
            for place in (starts + numbers - 1, starts)
        )
        moved = np.where(numbers > 0, numbers + before - earlier, 0).astype(chunk.links.ids.dtype)
        return Side(ids, chunk.src_lengths + added), Side(moved, chunk.links.lengths)

    def _hints(self, chunk: _Chunk, chosen: Phrases, states: NDArray[np.uint64]) -> Side:
        """Return the hint for each phrase: markers around its translation."""
        given = chunk.tgt.texts(chosen.tgt_first, chosen.tgt_last)
        at_start = ~chunk.tgt.begins_apart[chosen.tgt_first]
        led = self._cutter.after_space(given.only(at_start))
        texts = _replaced(given, led, np.where(at_start, np.cumsum(at_start) - 1, -1))
        others = Side(self._forms.forms.ids, self._forms.forms.lengths)
        texts = _replaced(texts, others, self._other_forms(chunk, chosen, states))
        ends = np.cumsum(texts.lengths)
        places = np.stack([ends - texts.lengths, ends], axis=1).ravel()
        markers = np.tile(np.array(self._markers, dtype=texts.ids.dtype), ends.size)
        return Side(np.insert(texts.ids, places, markers), texts.lengths + 2)

    def _other_forms(self, chunk: _Chunk, chosen: Phrases, states: NDArray[np.uint64]) -> Numbers:
        """Draw which hints name another form of their word; -1: the form that the target has."""
        single = (chosen.src_first == chosen.src_last) & (chosen.tgt_first == chosen.tgt_last)
        keys = splitmix64(_keys(chunk, chosen, states))
        some = np.flatnonzero(single & (keys / 2.0**64 < OTHER_FORMS))
        words = chosen.only(some)
        found = np.full(len(chosen), -1)
        sources = chunk.src.texts(words.src_first, words.src_last).hashes()
        targets = chunk.tgt.texts(words.tgt_first, words.tgt_last)
        found[some] = self._forms.other(sources, targets, self._cutter)
        return found


def _drawn_phrases(chunk: _Chunk, states: NDArray[np.uint64]) -> Numbers:
    """Draw one to three phrases of each sentence that do not overlap, in order of their places."""
    found = chunk.phrases
    sentences = chunk.src.sentences[found.src_first]
    wanted = 1 + (splitmix64(states) >> np.uint64(33)).astype(np.int64) * MAX_TERMS // 2**31
    left = np.lexsort((_keys(chunk, found, states), sentences))
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
    ordered: Numbers = together[np.argsort(found.src_first[together])]
    return ordered


def _keys(chunk: _Chunk, phrases: Phrases, states: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a random number for each phrase, by its pair and its place in the source."""
    sentences = chunk.src.sentences[phrases.src_first]
    places = (phrases.src_first - chunk.src.first[sentences]) * (MAX_TERMS + 1)
    places += phrases.src_last - phrases.src_first
    return splitmix64(states[sentences] + splitmix64(places.astype(np.uint64) + np.uint64(1)))


def _replaced(side: Side, others: Side, places: Numbers) -> Side:
    """Replace sentences by those at the given places among others; -1: it stays."""
    ends, other_ends = np.cumsum(side.lengths), np.cumsum(others.lengths)
    lengths = side.lengths.copy()
    new = places >= 0
    lengths[new] = others.lengths[places[new]]
    ends[new] = side.ids.size + other_ends[places[new]]
    return Side.of_ranges(np.concatenate([side.ids, others.ids]), ends - lengths, ends)


def _concatenated(parts: list[Side]) -> Side:
    return Side(
        np.concatenate([part.ids for part in parts] or [np.empty(0, dtype=np.uint16)]),
        np.concatenate([np.empty(0, dtype=np.int64), *(part.lengths for part in parts)]),
    )
