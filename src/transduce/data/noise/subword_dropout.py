"""BPE-dropout (Provilkov et al., 2020): words are cut into other subwords in each epoch.

Wherever a merge could be applied, it is left out with a chance, so a model sees several spellings
of a word. Each word has a number of such spellings; which of them it gets follows from the state of
its pair, which is drawn from the seed and the epoch, and from its place in the sentence.
"""

from itertools import pairwise
from zlib import crc32

import numpy as np

from transduce.data.batching import splitmix64
from transduce.data.encoding.side import Side
from transduce.data.noise.words import Hashes, WordChanges
from transduce.errors import ConfigError
from transduce.text.noise.draws import Draws
from transduce.text.vocabulary import Vocabulary

SPELLINGS = 64
"""How many spellings are drawn of a word; most short words have only a few different ones."""
_CHANCES = 1 << 32


class SubwordDropout(WordChanges):
    """Cuts the words of one side into subwords anew."""

    def __init__(
        self, vocabulary: Vocabulary, kind: np.dtype[np.unsignedinteger], rate: float
    ) -> None:
        """Take the vocabulary, the type of ids in the store, and the chance of each merge."""
        merges = vocabulary.merges()
        if merges is None:
            raise ConfigError(
                f"data.subword_dropout={rate:g} leaves out merges of BPE, which this vocabulary "
                "has not: use data.subwords=bpe, or leave it out"
            )
        if vocabulary.placeholders:
            raise ConfigError(
                f"data.subword_dropout={rate:g}: this vocabulary has entries for placeholders, "
                "which have no merges: leave it out"
            )
        super().__init__(vocabulary, kind)
        self._ranks = {pair: rank for rank, pair in enumerate(merges)}
        self._dropped_below = round(rate * _CHANCES)

    def applied(self, side: Side, states: Hashes) -> Side:
        """Return sentences, none of them empty, with a spelling drawn for each of their words."""
        words = self.cut(side)
        counts = words.counts
        places = np.arange(words.starts.size) - np.repeat(words.first, counts)
        drawn = splitmix64(np.repeat(states, counts) + splitmix64(places.astype(np.uint64)))
        spellings = 1 + (drawn % np.uint64(SPELLINGS)).astype(np.int64)
        nothing = np.zeros(counts.size, dtype=np.int64)
        return self.replaced(words, spellings, nothing, nothing > 0)

    def _spelt(self, texts: list[str], changes: list[int]) -> list[list[int]]:
        return [
            self._vocabulary.ids_of(
                token
                for piece in self._vocabulary.pieces(text)
                for token in self._merged(piece, Draws(crc32(piece.encode()) << 8 | spelling))
            )
            for text, spelling in zip(texts, changes, strict=True)
        ]

    def _merged(self, piece: str, draws: Draws) -> list[str]:
        """Apply the merges to the letters of a piece, the first learnt first, without some."""
        tokens = list(piece)
        while True:
            found = [
                (self._ranks[pair], place)
                for place, pair in enumerate(pairwise(tokens))
                if pair in self._ranks and draws.below(_CHANCES) >= self._dropped_below
            ]
            if not found:
                return tokens
            place = min(found)[1]
            tokens[place : place + 2] = [tokens[place] + tokens[place + 1]]
