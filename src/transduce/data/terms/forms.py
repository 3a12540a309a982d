"""Other forms of the words that translate a word: the same word, inflected otherwise."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transduce.data.batching import splitmix64
from transduce.data.encoding.side import Side
from transduce.data.store import Sentences
from transduce.data.terms.phrases import Numbers, Phrases, SideWords, WordCutter

MIN_COUNT = 2
"""A word that translates another only once may be a wrong link."""
MIN_STEM = 3
"""Letters that two forms of a word have in common, at least, and at least half of all."""

Hashes = NDArray[np.uint64]


@dataclass(frozen=True)
class SeenWords:
    """Words that translate each other, as they were found."""

    src: Hashes
    tgt: Side


def seen_words(src: SideWords, tgt: SideWords, phrases: Phrases) -> SeenWords:
    """Return the phrases that have one word on each side; those after a space, to be compared."""
    single = phrases.only(
        (phrases.src_first == phrases.src_last)
        & (phrases.tgt_first == phrases.tgt_last)
        & tgt.begins_apart[phrases.tgt_first]
    )
    sources = src.texts(single.src_first, single.src_last)
    return SeenWords(sources.hashes(), tgt.texts(single.tgt_first, single.tgt_last))


@dataclass(frozen=True)
class WordForms:
    """For each source word, by the hash of its tokens, the two words that it most often becomes."""

    sources: Hashes  # in ascending order
    best: Numbers  # among `forms`
    second: Numbers  # -1: none
    forms: Sentences
    hashes: Hashes  # of the forms

    @classmethod
    def of(cls, seen: list[SeenWords], kind: np.dtype[np.unsignedinteger]) -> "WordForms":
        """Count which words translate which."""
        src = np.concatenate([np.empty(0, dtype=np.uint64), *(one.src for one in seen)])
        ids = np.concatenate([np.empty(0, dtype=kind), *(one.tgt.ids for one in seen)])
        nothing = np.empty(0, dtype=np.int64)
        lengths = np.concatenate([nothing, *(one.tgt.lengths for one in seen)])
        tgt = Side(ids, lengths).hashes()
        _, place, count = np.unique(splitmix64(src) + tgt, return_index=True, return_counts=True)
        place, count = place[count >= MIN_COUNT], count[count >= MIN_COUNT]
        order = np.lexsort((tgt[place], -count, src[place]))
        place = place[order]
        sources, first = np.unique(src[place], return_index=True)
        after = np.append(first[1:], place.size)[: first.size]
        ends = np.cumsum(lengths)
        forms = Sentences(ids, ends)
        kept = Sentences(forms.gather(place), np.cumsum(lengths[place]))
        return cls(sources, first, np.where(after - first > 1, first + 1, -1), kept, tgt[place])

    def other(self, src: Hashes, tgt: Side, cutter: WordCutter) -> Numbers:
        """Return for each pair of words another form of the target; -1: there is none.

        It is the form that most often translates the source word, if it begins as the target does.
        """
        if not self.sources.size:
            return np.full(src.size, -1)
        places = np.minimum(np.searchsorted(self.sources, src), self.sources.size - 1)
        best = self.best[places]
        found = np.where(self.hashes[best] == tgt.hashes(), self.second[places], best)
        found[self.sources[places] != src] = -1
        given = Sentences(tgt.ids, np.cumsum(tgt.lengths))
        for number in np.flatnonzero(found >= 0):
            form = self.forms[int(found[number])]
            if not _are_alike(cutter.text(form), cutter.text(given[int(number)])):
                found[number] = -1
        return found


def _are_alike(one: str, other: str) -> bool:
    """Return whether two words may be forms of one: they begin with the same letters."""
    stem = max(MIN_STEM, -(-max(len(one), len(other)) // 2))
    return one.lower()[:stem] == other.lower()[:stem]
