"""Which rows of a corpus in several languages are fit, for each pair of languages."""

from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from transduce.data.cleaning import DUPLICATE, FILTERS, CorpusProfile, DuplicateFilter, PairFilter
from transduce.data.corpus import Pair
from transduce.data.languages.corpora import Multiway, Row

FIT = 0
"""The code of a pair without a fault; others are places among FILTERS, from 1."""

Codes = NDArray[np.uint8]


@dataclass(frozen=True)
class RowFilter:
    """Judges the pairs of languages within rows, each by what is typical of that pair."""

    languages: tuple[str, ...]
    pairs: tuple[tuple[int, int], ...]  # places of languages
    filters: tuple[PairFilter, ...]  # of each pair

    @classmethod
    def fit(cls, corpus: Multiway, sample: list[Row], base: PairFilter) -> "RowFilter":
        """Measure on a sample what is typical of each pair; all else is as in `base`."""
        pairs = tuple(corpus.pairs)
        profiles = (
            CorpusProfile.measure([Pair(row[one], row[other]) for row in sample])
            for one, other in pairs
        )
        filters = tuple(replace(base, typical=profile) for profile in profiles)
        return cls(corpus.languages, pairs, filters)

    def codes(self, rows: list[Row]) -> Codes:
        """Return the fault of each pair of languages in each row, [pairs, rows]."""
        found = np.zeros((len(self.pairs), len(rows)), dtype=np.uint8)
        for number, ((one, other), judge) in enumerate(zip(self.pairs, self.filters, strict=True)):
            faults = judge.faults([Pair(row[one], row[other]) for row in rows])
            found[number] = [0 if fault is None else 1 + FILTERS.index(fault) for fault in faults]
        return found

    def digests(self, rows: list[Row]) -> list[int]:
        """Digest each row to a 64-bit number.

        Rows of the same text in the same languages have one, in whatever order these are.
        """
        order = sorted(range(len(self.languages)), key=self.languages.__getitem__)
        names = "\n".join(self.languages[place] for place in order)
        texts = ("\n".join(row[place].strip() for place in order) for row in rows)
        return self.filters[0].digests([Pair(names, text) for text in texts])


@dataclass
class RowReport:
    """How many pairs of all directions were read and dropped, by filter."""

    duplicates: DuplicateFilter = field(default_factory=DuplicateFilter)
    read: int = 0
    dropped: Counter[str] = field(default_factory=Counter)

    def mark_repeated(self, codes: Codes, digests: list[int]) -> Codes:
        """Mark rows that came before as duplicates."""
        if digests:
            again = np.array(self.duplicates.add(digests), dtype=bool)
            codes[(codes == FIT) & again] = 1 + FILTERS.index(DUPLICATE)
        return codes

    def record(self, codes: Codes) -> None:
        """Count the pairs of one direction."""
        self.read += codes.size
        counts = np.bincount(codes, minlength=len(FILTERS) + 1)[1:]
        self.dropped.update({name: int(n) for name, n in zip(FILTERS, counts, strict=True) if n})
