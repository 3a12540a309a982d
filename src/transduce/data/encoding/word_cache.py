"""Encoding many texts quickly: each word is encoded once, and looked up from then on.

No piece of our own vocabularies crosses the start of a word, and a word between single spaces is
encoded alike in any text. So a text is cut at its spaces, and the ids of its words are gathered
from a table. Texts with other spaces, unigram and imported vocabularies are left to the library.
The ids are the same.
"""

from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from transduce.data.encoding.side import Ids, Side
from transduce.text.vocabulary import Vocabulary

MAX_WORDS = 1 << 18
MAX_CHARACTERS = 1 << 23
"""When a table has more words, or words with more characters, it is emptied: memory is bounded."""

_FIRST = "\n"
"""Marks a word that starts a text, which has no space before it; no word has a line break."""


class WordCache:
    """Encodes the texts of one side; keeps the ids of the words that it has met."""

    _place_of: "_Places"  # the place of each word in the table
    _characters: int  # of all words
    _ids: Ids  # of all words, concatenated
    _starts: NDArray[np.int64]  # where a word's ids start
    _lengths: NDArray[np.int64]

    def __init__(self, vocabulary: Vocabulary, kind: np.dtype[np.unsignedinteger]) -> None:
        """`kind` is the type of the ids."""
        self._vocabulary = vocabulary
        self._kind = kind
        self._forget()

    def encode(self, texts: Sequence[str]) -> Side:
        """Encode texts to ids, without BOS and EOS."""
        if not self._vocabulary.encodes_words_alone:
            return _joined(self._vocabulary.encode(texts), self._kind)
        words: list[str] = []
        counts: list[int] = []  # of words in each text
        others: list[str] = []  # texts that are looked up whole
        for text in texts:
            parts = text.split(" ")
            if parts == text.split():
                parts[0] = _FIRST + parts[0]
                words += parts
                counts.append(len(parts))
            else:
                others.append(text)
                counts.append(0)
        known = self._gather(words, np.array(counts, dtype=np.int64))
        return _inserted(known, _joined(self._vocabulary.encode(others), self._kind), counts)

    def _gather(self, words: list[str], counts: NDArray[np.int64]) -> Side:
        """Concatenate the ids of all words; return them with the number of ids of each text."""
        places = self._places(words)
        lengths = self._lengths[places]
        ends = np.cumsum(lengths)
        shifts = self._starts[places] - (ends - lengths)
        ids = self._ids[np.arange(lengths.sum()) + np.repeat(shifts, lengths)]
        text_ends = np.concatenate(([0], ends))[np.cumsum(counts)]
        return Side(ids, np.diff(text_ends, prepend=0))

    def _places(self, words: list[str]) -> NDArray[np.int64]:
        """Return the place of each word in the table, after adding the new ones to it."""
        if len(self._place_of) > MAX_WORDS or self._characters > MAX_CHARACTERS:
            self._forget()
        places = np.fromiter(map(self._place_of.__getitem__, words), np.int64, count=len(words))
        if self._place_of.new:
            self._learn(self._place_of.new)
            self._place_of.new = []
        return places

    def _learn(self, words: list[str]) -> None:
        texts = [word[1:] if word[0] == _FIRST else f" {word}" for word in words]
        added = _joined(self._vocabulary.encode(texts), self._kind)
        starts = self._ids.size + np.cumsum(added.lengths) - added.lengths
        self._starts = np.concatenate((self._starts, starts))
        self._lengths = np.concatenate((self._lengths, added.lengths))
        self._ids = np.concatenate((self._ids, added.ids))
        self._characters += sum(map(len, words))

    def _forget(self) -> None:
        self._place_of = _Places()
        self._characters = 0
        self._ids = np.empty(0, dtype=self._kind)
        self._starts = np.empty(0, dtype=np.int64)
        self._lengths = np.empty(0, dtype=np.int64)


class _Places(dict[str, int]):
    """Numbers words in the order in which they are first looked up, and lists the new ones."""

    def __init__(self) -> None:
        super().__init__()
        self.new: list[str] = []

    def __missing__(self, word: str) -> int:
        place = self[word] = len(self)
        self.new.append(word)
        return place


def _joined(rows: list[list[int]], kind: np.dtype[np.unsignedinteger]) -> Side:
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    ids = np.fromiter(chain.from_iterable(rows), dtype=kind, count=int(lengths.sum()))
    return Side(ids, lengths)


def _inserted(known: Side, others: Side, counts: list[int]) -> Side:
    """Put the ids of the other texts where a text has no words."""
    if not others.lengths.size:
        return known
    is_other = np.array(counts) == 0
    lengths = known.lengths.copy()
    lengths[is_other] = others.lengths
    from_others = np.repeat(is_other, lengths)
    ids = np.empty(from_others.size, dtype=known.ids.dtype)
    ids[from_others], ids[~from_others] = others.ids, known.ids
    return Side(ids, lengths)
