"""Sentences with some of them replaced: those that have noise in an epoch."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transduce.data.encoding.side import Ids, Side
from transduce.data.store import Sentences


@dataclass(frozen=True)
class NoisedSentences(Sentences):
    """The sentences of a side, some replaced by sentences in memory."""

    clean: Sentences
    noised: Sentences
    places: NDArray[np.int32]  # of each sentence among `noised`; -1: it is as in the store

    @classmethod
    def over(cls, clean: Sentences, noised: Side, places: NDArray[np.int32]) -> "NoisedSentences":
        """Replace sentences by those of a side, in order; others may be replaced already."""
        ids, lengths = noised.ids, noised.lengths
        if isinstance(clean, NoisedSentences):
            before = clean.noised
            ids = np.concatenate([before.ids, ids.astype(before.ids.dtype)])
            lengths = np.concatenate([before.lengths, lengths])
            places = np.where(places >= 0, places + np.int32(len(before)), clean.places)
            clean = clean.clean
        return cls(clean.ids, clean.ends, clean, Sentences(ids, np.cumsum(lengths)), places)

    def __len__(self) -> int:
        return len(self.clean)

    def __getitem__(self, index: int) -> Ids:
        place = int(self.places[index])
        return self.clean[index] if place < 0 else self.noised[place]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of tokens of each sentence, without EOS."""
        return self.lengths_of(np.arange(len(self)))

    def lengths_of(self, sentences: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of tokens of each of these sentences, without EOS."""
        places = self.places[sentences]
        lengths = self.clean.lengths_of(sentences)
        is_noised = places >= 0
        lengths[is_noised] = self.noised.lengths_of(places[is_noised].astype(np.int64))
        return lengths

    def gather(self, sentences: NDArray[np.int64]) -> Ids:
        """Concatenate sentences, without EOS."""
        places = self.places[sentences]
        is_noised = places >= 0
        clean = self.clean.gather(sentences[~is_noised])
        noised = self.noised.gather(places[is_noised].astype(np.int64))
        from_noised = np.repeat(is_noised, self.lengths_of(sentences))
        together = np.empty(from_noised.size, dtype=self.ids.dtype)
        together[from_noised] = noised
        together[~from_noised] = clean
        return together
