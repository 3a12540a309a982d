"""The store of an epoch with placeholders planted in a share of its pairs.

Words that translate each other, by the links of their tokens, become the same sign on both sides,
so that a model learns to copy signs to their places, however few placeholders the text has. All of
it follows from the store, the rate, the seed and the epoch.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from transduce.data.batching import hash_noise
from transduce.data.encoding.side import Side
from transduce.data.loader import EpochChanges
from transduce.data.noise.epochs import sampled_pairs
from transduce.data.noise.noised import NoisedSentences
from transduce.data.store import Store
from transduce.data.terms.drawn import PairChunk, concatenated, drawn_phrases
from transduce.data.terms.phrases import Flags, Numbers, Phrases, SideWords, WordCutter
from transduce.text.tokenizer import Tokenizer
from transduce.text.vocabulary import Vocabulary

MIN_BYTES = 4
"""Of a word that is replaced: most shorter ones are articles and prepositions."""
CHUNK_PAIRS = 20_000


class EpochPlaceholders:
    """Plants placeholders in a share of the pairs of a store with links, others in each epoch."""

    def __init__(
        self,
        rate: float,
        tokenizer: Tokenizer,
        *,
        noise: EpochChanges | None = None,
        keeps_links: bool,
    ) -> None:
        """Take the share of pairs.

        noise: is put in first; pairs that get some have no links, and so nothing is planted.
        keeps_links: whether the stores of epochs have links too; changed pairs have none.
        """
        self._rate = rate
        self._noise = noise
        self._keeps_links = keeps_links
        self._src, self._tgt = _Signs(tokenizer.source), _Signs(tokenizer.target)

    def store(self, clean: Store, *, seed: int, epoch: int, max_lengths: tuple[int, int]) -> Store:
        """Return the store of an epoch; no side of a changed pair exceeds the tokens allowed."""
        if self._noise is not None:
            clean = self._noise.store(clean, seed=seed, epoch=epoch, max_lengths=max_lengths)
        pairs, src, tgt = self._planted(clean, seed, epoch)
        fits = (src.lengths <= max_lengths[0]) & (tgt.lengths <= max_lengths[1])
        places = np.full(len(clean), -1, dtype=np.int32)
        places[pairs[fits]] = np.arange(int(fits.sum()), dtype=np.int32)
        assert clean.links is not None, "words that translate each other are found by links"
        tgt = tgt.only(fits)
        none = Side(np.zeros(tgt.ids.size, dtype=clean.links.ids.dtype), tgt.lengths)
        links = NoisedSentences.over(clean.links, none, places) if self._keeps_links else None
        return replace(
            clean,
            src=NoisedSentences.over(clean.src, src.only(fits), places),
            tgt=NoisedSentences.over(clean.tgt, tgt, places),
            links=links,
        )

    def sampled_lengths(
        self, clean: Store, pairs: NDArray[np.int64], *, seed: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the lengths of both sides of some of these pairs, without what is planted.

        That hardly changes them: two tokens take the place of a word.
        """
        if self._noise is not None:
            return self._noise.sampled_lengths(clean, pairs, seed=seed)
        chosen = sampled_pairs(pairs)
        return clean.src.lengths_of(chosen), clean.tgt.lengths_of(chosen)

    def close(self) -> None:
        """End the processes that make noise."""
        if self._noise is not None:
            self._noise.close()

    def _planted(self, clean: Store, seed: int, epoch: int) -> tuple[Numbers, Side, Side]:
        """Return the numbers of pairs that may have changed, and their two sides."""
        chance = hash_noise(len(clean), seed, epoch ^ 1 << 54) / 2.0**64
        pairs = np.flatnonzero(chance < self._rate)
        states = hash_noise(len(clean), seed, epoch ^ 1 << 55)[pairs]
        made = [
            self._changed(clean, pairs[start : start + CHUNK_PAIRS], states[start:])
            for start in range(0, pairs.size, CHUNK_PAIRS)
        ]
        src, tgt = (concatenated([one[side] for one in made]) for side in (0, 1))
        return pairs, src, tgt

    def _changed(
        self, store: Store, pairs: Numbers, states: NDArray[np.uint64]
    ) -> tuple[Side, Side]:
        chunk = PairChunk.of(store, pairs, (self._src.cutter, self._tgt.cutter))
        drawn = drawn_phrases(chunk, self._single_words(chunk), states[: pairs.size])
        sentences = chunk.src.sentences[drawn.src_first]
        # Consecutive signs from a drawn one on: those of a pair differ.
        numbers = np.arange(len(drawn)) - np.searchsorted(sentences, sentences)
        numbers += (states[: pairs.size] >> np.uint64(60)).astype(np.int64)[sentences]
        return (
            self._src.replaced(chunk.src, drawn.src_first, numbers, pairs.size),
            self._tgt.replaced(chunk.tgt, drawn.tgt_first, numbers, pairs.size),
        )

    def _single_words(self, chunk: PairChunk) -> Phrases:
        """Return the words that translate each other, long enough, of pairs without signs."""
        found = chunk.phrases
        is_free = ~(self._src.has_sign(chunk.src) | self._tgt.has_sign(chunk.tgt))
        return found.only(
            (found.src_first == found.src_last)
            & (found.tgt_first == found.tgt_last)
            & self._src.is_long(chunk.src)[found.src_first]
            & self._tgt.is_long(chunk.tgt)[found.tgt_first]
            & is_free[chunk.src.sentences[found.src_first]]
        )


class _Signs:
    """Puts signs in the place of the words of one side."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.cutter = WordCutter(vocabulary)
        self._ids = np.array(list(vocabulary.placeholders.values()))
        [space] = vocabulary.encode([" "])
        self._space = np.array(space[-1:])
        self._is_led = np.array([piece.startswith(b" ") for piece in self.cutter.pieces])
        self._sizes = np.array([len(piece) for piece in self.cutter.pieces])

    def is_long(self, words: SideWords) -> Flags:
        """Return which words have enough bytes, without the space before them."""
        sums = np.concatenate([[0], np.cumsum(self._sizes[words.ids])])
        sizes = sums[words.ends] - sums[words.starts] - self._is_led[words.ids[words.starts]]
        found: Flags = sizes >= MIN_BYTES
        return found

    def has_sign(self, words: SideWords) -> Flags:
        """Return which sentences have signs."""
        found: Flags = np.zeros(words.first.size, dtype=bool)
        is_sign = np.isin(words.ids, self._ids)
        found[words.sentences[words.word_of[is_sign]]] = True
        return found

    def replaced(self, words: SideWords, chosen: Numbers, numbers: Numbers, count: int) -> Side:
        """Return the sentences with signs, by number, instead of words; `count` of them."""
        signs = self._ids[numbers % self._ids.size]
        new = np.stack([np.broadcast_to(self._space, signs.shape), signs], axis=1)
        is_led = self._is_led[words.ids[words.starts[chosen]]]
        starts, ends = words.starts.copy(), words.ends.copy()
        ends[chosen] = words.ids.size + 2 * np.arange(1, chosen.size + 1)
        starts[chosen] = ends[chosen] - 1 - is_led
        ids = np.concatenate([words.ids, new.ravel().astype(words.ids.dtype)])
        lengths = np.bincount(words.sentences, ends - starts, minlength=count).astype(np.int64)
        return Side(Side.of_ranges(ids, starts, ends).ids, lengths)
