"""The store of an epoch with hints in a share of its sources (Dinu et al., 2019).

A hint stands after a term of the source: a marker, the term's translation, a marker. Of half of
them the term itself is left out: a model that knows its training text has no use for hints, and
would not learn to read them. All of it follows from the store, the rate, the seed and the epoch, so
a resumed run has the same.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from transduce.data.batching import hash_noise, splitmix64
from transduce.data.encoding.side import Side
from transduce.data.loader import EpochChanges
from transduce.data.noise.epochs import sampled_pairs
from transduce.data.noise.noised import NoisedSentences
from transduce.data.store import Store
from transduce.data.terms.drawn import PairChunk, concatenated, drawn_phrases
from transduce.data.terms.forms import SeenWords, WordForms, seen_words
from transduce.data.terms.phrases import Numbers, Phrases, WordCutter
from transduce.errors import ConfigError
from transduce.text.tokenizer import Tokenizer

OTHER_FORMS = 0.3
"""The share of hints that name another form of the word than the target has, where there is one."""
INSTEAD = 0.5
"""The share of hints that stand instead of their terms."""
FORM_PAIRS = 100_000
"""Forms of words are counted in at most this many pairs, spread evenly over the store."""
CHUNK_PAIRS = 20_000
MAX_LINKED = 2**16 - 2
"""Links are numbers of two bytes."""


class EpochTerms:
    """Puts hints into a share of the sources of a store with links, others in each epoch."""

    def __init__(
        self,
        rate: float,
        tokenizer: Tokenizer,
        train: Store,
        *,
        noise: EpochChanges | None = None,
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
        self._cutters = self._cutter, self._cutter
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
        src, links = (concatenated([one[side] for one in made]) for side in (0, 1))
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
            chunk = PairChunk.of(train, every[start : start + CHUNK_PAIRS], self._cutters)
            yield seen_words(chunk.src, chunk.tgt, chunk.phrases)

    def _hinted(
        self, store: Store, pairs: Numbers, states: NDArray[np.uint64]
    ) -> tuple[Side, Side]:
        """Return the sources of pairs with hints, and their links, which count tokens of these."""
        chunk = PairChunk.of(store, pairs, self._cutters)
        chosen = drawn_phrases(chunk, chunk.phrases, states)
        hints = self._hints(chunk, chosen, states)
        ends = chunk.src.ends[chosen.src_last]
        left_out = chosen.only(self._are_left_out(chunk, chosen, states))
        is_left_out = chunk.src.within(left_out.src_first, left_out.src_last)
        ids = np.insert(chunk.src.ids, np.repeat(ends, hints.lengths), hints.ids)
        # How far each token moves: by the hints before it, less what is left out before it.
        hinted = np.bincount(ends, hints.lengths, is_left_out.size + 1).astype(np.int64).cumsum()
        ids = np.delete(ids, (np.arange(is_left_out.size) + hinted[:-1])[is_left_out])
        shifts = hinted - np.concatenate([[0], is_left_out.cumsum()])
        sentence_ends = np.cumsum(chunk.src_lengths)
        starts = sentence_ends - chunk.src_lengths
        lengths = chunk.src_lengths + shifts[sentence_ends] - shifts[starts]
        starts = np.repeat(starts, chunk.links.lengths)
        numbers = chunk.links.ids.astype(np.int64)
        linked = np.where(numbers > 0, starts + numbers - 1, is_left_out.size)
        is_linked = (numbers > 0) & ~np.append(is_left_out, True)[linked]
        moved = np.where(is_linked, numbers + shifts[linked] - shifts[starts], 0)
        links = Side(moved.astype(chunk.links.ids.dtype), chunk.links.lengths)
        return Side(ids, lengths), links

    def _hints(self, chunk: PairChunk, chosen: Phrases, states: NDArray[np.uint64]) -> Side:
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

    def _are_left_out(
        self, chunk: PairChunk, chosen: Phrases, states: NDArray[np.uint64]
    ) -> NDArray[np.bool_]:
        """Draw which hints stand instead of their terms."""
        keys = splitmix64(~chunk.keys(chosen, states))
        return np.asarray(keys / 2.0**64 < INSTEAD)

    def _other_forms(
        self, chunk: PairChunk, chosen: Phrases, states: NDArray[np.uint64]
    ) -> Numbers:
        """Draw which hints name another form of their word; -1: the form that the target has."""
        single = (chosen.src_first == chosen.src_last) & (chosen.tgt_first == chosen.tgt_last)
        keys = splitmix64(chunk.keys(chosen, states))
        some = np.flatnonzero(single & (keys / 2.0**64 < OTHER_FORMS))
        words = chosen.only(some)
        found = np.full(len(chosen), -1)
        sources = chunk.src.texts(words.src_first, words.src_last).hashes()
        targets = chunk.tgt.texts(words.tgt_first, words.tgt_last)
        found[some] = self._forms.other(sources, targets, self._cutter)
        return found


def _replaced(side: Side, others: Side, places: Numbers) -> Side:
    """Replace sentences by those at the given places among others; -1: it stays."""
    ends, other_ends = np.cumsum(side.lengths), np.cumsum(others.lengths)
    lengths = side.lengths.copy()
    new = places >= 0
    lengths[new] = others.lengths[places[new]]
    ends[new] = side.ids.size + other_ends[places[new]]
    return Side.of_ranges(np.concatenate([side.ids, others.ids]), ends - lengths, ends)
