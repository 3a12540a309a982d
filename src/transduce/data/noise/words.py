"""The words of encoded sentences, and words that replace them.

A word starts at a token that starts with a space. Subwords never cross that place, so changed words
are encoded by themselves. Each is encoded once, and found again by a hash of its ids.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transduce.data.batching import splitmix64
from transduce.data.encoding.side import Ids, Side
from transduce.data.noise.changes import changed
from transduce.data.store import Sentences
from transduce.errors import ConfigError
from transduce.text.special_ids import UNK_ID
from transduce.text.spelling import spelled
from transduce.text.vocabulary import Vocabulary

MARKS = (b'"', b"'", b"`", b"-", b"\xc2", b"\xe2")
"""Quotes and dashes, and the first bytes of others; of other signs too."""
SPACES = (b" ", b"\t", b"\n", b"\r", b"\x0b", b"\x0c")
MAX_KNOWN = 1 << 20
"""Changed words are forgotten when there are this many."""

Numbers = NDArray[np.int64]
Hashes = NDArray[np.uint64]


@dataclass(frozen=True)
class CutWords:
    """Sentences, concatenated, and where their words start; none is empty."""

    ids: Ids
    starts: Numbers  # of each word in `ids`
    first: Numbers  # the first word of each sentence

    @property
    def ends(self) -> Numbers:
        """Where each word ends in `ids`."""
        return np.append(self.starts[1:], self.ids.size)

    @property
    def counts(self) -> Numbers:
        """The number of words of each sentence."""
        return np.diff(np.append(self.first, self.starts.size))

    def without_start(self, words: Numbers) -> "CutWords":
        """Join words, in ascending order, to those before them; none is a sentence's first."""
        starts = np.delete(self.starts, words)
        return CutWords(self.ids, starts, np.searchsorted(starts, self.starts[self.first]))


@dataclass
class _Known:
    """Changed words that have been encoded, in the order in which they came."""

    hashes: Hashes  # in ascending order
    numbers: Numbers  # of the word with each hash
    words: Sentences

    @classmethod
    def nothing(cls, kind: np.dtype[np.unsignedinteger]) -> "_Known":
        none = np.empty(0, dtype=np.int64)
        return cls(np.empty(0, dtype=np.uint64), none, Sentences(np.empty(0, dtype=kind), none))

    def find(self, hashes: Hashes) -> Numbers:
        """Return the number of each word; -1: it is new."""
        if not self.hashes.size:
            return np.full(hashes.size, -1)
        places = np.minimum(np.searchsorted(self.hashes, hashes), self.hashes.size - 1)
        return np.where(self.hashes[places] == hashes, self.numbers[places], -1)

    def add(self, hashes: Hashes, rows: list[list[int]]) -> None:
        """Add words whose hashes are in ascending order."""
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        kind, size = self.words.ids.dtype, self.words.ids.size
        ids = np.fromiter((one for row in rows for one in row), kind, int(lengths.sum()))
        places = np.searchsorted(self.hashes, hashes)
        numbers = self.hashes.size + np.arange(hashes.size)
        self.hashes = np.insert(self.hashes, places, hashes)
        self.numbers = np.insert(self.numbers, places, numbers)
        self.words = Sentences(
            np.concatenate([self.words.ids, ids]),
            np.concatenate([self.words.ends, size + np.cumsum(lengths)]),
        )


class WordChanges:
    """Cuts the sentences of one side into words, and replaces words."""

    def __init__(self, vocabulary: Vocabulary, kind: np.dtype[np.unsignedinteger]) -> None:
        """Take the vocabulary of the side and the type of ids in the store."""
        if not vocabulary.is_byte_level:
            raise ConfigError(
                "data.augment: this vocabulary does not keep the spaces and bytes of the text; use "
                "data.subwords=bpe, unigram, wordpiece or characters, or leave data.augment out"
            )
        self._kind = kind
        self._vocabulary = vocabulary
        entries = spelled(vocabulary.tokens(range(len(vocabulary))), are_bytes=True)
        self._bytes = [entry or b"" for entry in entries]
        self._bytes[UNK_ID] = b"\xef\xbf\xbd"  # U+FFFD, which becomes unknown again
        self._starts = np.array([entry.startswith(b" ") for entry in self._bytes])
        self._ends_in_space = np.array([entry.endswith(SPACES) for entry in self._bytes])
        self._has_mark = np.array([any(mark in one for mark in MARKS) for one in self._bytes])
        self._known = _Known.nothing(kind)

    def has_mark(self, words: CutWords) -> NDArray[np.bool_]:
        """Return whether words may have quotes or dashes."""
        found: NDArray[np.bool_] = np.logical_or.reduceat(self._has_mark[words.ids], words.starts)
        return found

    def cut(self, side: Side) -> CutWords:
        """Find the words of sentences."""
        is_start = self._starts[side.ids]
        is_start[1:] &= ~self._ends_in_space[side.ids[:-1]]
        sentences = np.cumsum(side.lengths) - side.lengths
        is_start[sentences] = True
        starts = np.flatnonzero(is_start)
        return CutWords(side.ids, starts, np.searchsorted(starts, sentences))

    def replaced(
        self, words: CutWords, changes: Numbers, strings: Numbers, at_start: NDArray[np.bool_]
    ) -> Side:
        """Return the sentences with their words changed, and strings added.

        `changes` has a number for each word, `strings` for each sentence; 0: none. `at_start` says
        whether a sentence's string comes before it, or after it.
        """
        if self._known.hashes.size > MAX_KNOWN:
            self._known = _Known.nothing(self._kind)
        chosen, added = np.flatnonzero(changes), np.flatnonzero(strings)
        new, numbers = self._encoded(words, chosen, changes[chosen], strings[added])
        new_ends = words.ids.size + new.ends
        new_starts = new_ends - new.lengths
        starts, ends = words.starts.copy(), words.ends
        of_words, of_strings = numbers[: chosen.size], numbers[chosen.size :]
        starts[chosen], ends[chosen] = new_starts[of_words], new_ends[of_words]
        places = np.where(at_start, words.first, words.first + words.counts)[added]
        starts = np.insert(starts, places, new_starts[of_strings])
        ends = np.insert(ends, places, new_ends[of_strings])
        counts = words.counts + (strings > 0)
        return _gathered(np.concatenate([words.ids, new.ids]), starts, ends, counts)

    def _encoded(
        self, words: CutWords, chosen: Numbers, changes: Numbers, strings: Numbers
    ) -> tuple[Sentences, Numbers]:
        """Return changed words and strings, encoded, each once; and which of these each is.

        A string is the change of an empty word.
        """
        hashes = np.concatenate([_hashes(words)[chosen], np.zeros(strings.size, dtype=np.uint64)])
        changes = np.concatenate([changes, strings])
        keys = splitmix64(hashes + splitmix64(changes.astype(np.uint64)))
        unique, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        numbers = self._known.find(unique)
        new = np.flatnonzero(numbers < 0)
        if new.size:
            numbers[new] = self._known.hashes.size + np.arange(new.size)
            places = first[new]
            texts = [
                self._text(words, chosen[place]) if place < chosen.size else ""
                for place in places.tolist()
            ]
            self._known.add(unique[new], self._spelt(texts, changes[places].tolist()))
        known = self._known.words
        ends = np.cumsum(known.lengths_of(numbers))
        return Sentences(known.gather(numbers), ends), inverse

    def _spelt(self, texts: list[str], changes: list[int]) -> list[list[int]]:
        """Change words, and encode them."""
        both = zip(texts, changes, strict=True)
        return self._vocabulary.encode([changed(text, change) for text, change in both])

    def _text(self, words: CutWords, number: int) -> str:
        """Return the text of one word."""
        end = words.starts[number + 1] if number + 1 < words.starts.size else words.ids.size
        ids = words.ids[words.starts[number] : end].tolist()
        return b"".join([self._bytes[one] for one in ids]).decode(errors="replace")


def _hashes(words: CutWords) -> Hashes:
    """Return a hash of the ids of each word."""
    return Side(words.ids, words.ends - words.starts).hashes()


def _gathered(ids: Ids, starts: Numbers, ends: Numbers, counts: Numbers) -> Side:
    """Concatenate words that lie anywhere in `ids`; `counts` of them are a sentence each."""
    words = Side.of_ranges(ids, starts, ends)
    sums = np.concatenate([[0], np.cumsum(words.lengths)])
    return Side(words.ids, np.diff(sums[np.concatenate([[0], np.cumsum(counts)])]))
