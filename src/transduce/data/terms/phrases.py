"""Phrases of encoded pairs that translate each other, by the links of their tokens."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transduce.data.encoding.side import Ids, Side
from transduce.data.store import Sentences
from transduce.text.phrases.boundaries import is_word_character
from transduce.text.scripts import has_unspaced_script
from transduce.text.spelling import spelled
from transduce.text.vocabulary import Vocabulary

MAX_WORDS = 3
"""Of a phrase, on each side."""
UNLINKED = np.iinfo(np.int64).max

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class SideWords:
    """The words of sentences; signs between them are words too, without letters."""

    ids: Ids
    starts: Numbers  # of each word in `ids`
    ends: Numbers
    sentences: Numbers  # of each word: the number of its sentence
    first: Numbers  # of each sentence: the number of its first word
    word_of: Numbers  # of each token
    has_letters: Flags
    begins_apart: Flags  # after a space, or in a script that has none

    def can_begin(self, words: Numbers) -> Flags:
        """Return whether phrases may begin with these words: not within what has no spaces."""
        found: Flags = self.begins_apart[words] | (self.first[self.sentences[words]] == words)
        return found

    def texts(self, first: Numbers, last: Numbers) -> Side:
        """Return the tokens from one word to another, for several of such phrases."""
        return Side.of_ranges(self.ids, self.starts[first], self.ends[last])

    def within(self, first: Numbers, last: Numbers) -> Flags:
        """Return for each token whether it is in one of several phrases that do not overlap."""
        size = self.ids.size
        begun = np.bincount(self.starts[first], minlength=size)
        ended = np.bincount(self.ends[last], minlength=size)[:size]
        found: Flags = np.cumsum(begun - ended) > 0
        return found


@dataclass(frozen=True)
class Phrases:
    """Pairs of phrases that translate each other, by the numbers of their words."""

    src_first: Numbers
    src_last: Numbers
    tgt_first: Numbers
    tgt_last: Numbers

    def __len__(self) -> int:
        return self.src_first.size

    def only(self, chosen: Flags | Numbers) -> "Phrases":
        """Return some of them."""
        words = (self.src_first, self.src_last, self.tgt_first, self.tgt_last)
        return Phrases(*(side[chosen] for side in words))


class WordCutter:
    """Cuts encoded sentences into words."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Take a vocabulary whose tokens are bytes."""
        pieces = spelled(vocabulary.tokens(range(len(vocabulary))), are_bytes=True)
        self._vocabulary = vocabulary
        self.pieces = [piece or b"" for piece in pieces]
        characters = [_first_character(piece) for piece in self.pieces]
        after_space = np.array([piece.startswith(b" ") for piece in self.pieces])
        unspaced = np.array([has_unspaced_script(one) for one in characters])
        self._begins = after_space | unspaced
        # A piece of a character is part of a word.
        is_sign = [bool(one) and not is_word_character(one) for one in characters]
        self._is_sign = np.array(is_sign) & ~unspaced
        is_blank = np.array([not piece.strip() for piece in self.pieces])
        self._is_letter = ~self._is_sign & ~is_blank

    def text(self, ids: Ids) -> str:
        """Return the text of tokens, without the space that it begins with."""
        return b"".join([self.pieces[token] for token in ids]).decode(errors="replace").strip()

    def after_space(self, side: Side) -> Side:
        """Return texts as they are encoded after a space; at the beginning there is none."""
        each = Sentences(side.ids, np.cumsum(side.lengths))
        rows = self._vocabulary.encode([f" {self.text(each[n])}" for n in range(len(each))])
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        return Side(np.array([one for row in rows for one in row], dtype=side.ids.dtype), lengths)

    def cut(self, side: Side) -> SideWords:
        """Cut at spaces, before and after signs, and between tokens of scripts without spaces."""
        is_sign, begins = self._is_sign[side.ids], self._begins[side.ids]
        is_start = begins.copy()
        is_start[1:] |= is_sign[1:] != is_sign[:-1]
        sentence_starts = np.cumsum(side.lengths) - side.lengths
        is_start[sentence_starts[side.lengths > 0]] = True
        starts = np.flatnonzero(is_start)
        sentences = np.repeat(np.arange(side.lengths.size), side.lengths)[starts]
        letters = np.concatenate([[0], np.cumsum(self._is_letter[side.ids])])
        ends = np.append(starts[1:], side.ids.size)[: starts.size]
        return SideWords(
            ids=side.ids,
            starts=starts,
            ends=ends,
            sentences=sentences,
            first=np.searchsorted(starts, sentence_starts),
            word_of=np.cumsum(is_start) - 1,
            has_letters=letters[ends] > letters[starts],
            begins_apart=begins[starts],
        )


def consistent_phrases(src: SideWords, tgt: SideWords, linked: Numbers) -> Phrases:
    """Return all phrases of up to three words whose words are linked with each other alone.

    `linked` has for each target token the place of its source token among all; -1: none. Every word
    of both phrases has a link, and none leads out of them.
    """
    tokens = np.flatnonzero(linked >= 0)
    src_words, tgt_words = src.word_of[linked[tokens]], tgt.word_of[tokens]
    are_words = src.has_letters[src_words] & tgt.has_letters[tgt_words]
    src_words, tgt_words = src_words[are_words], tgt_words[are_words]
    there = _reach(src_words, tgt_words, src.starts.size)
    back = _reach(tgt_words, src_words, tgt.starts.size)
    found = [_of_length(length, src, tgt, there, back) for length in range(1, MAX_WORDS + 1)]
    columns = ((one.src_first, one.src_last, one.tgt_first, one.tgt_last) for one in found)
    return Phrases(*(np.concatenate(side) for side in zip(*columns, strict=True)))


def _first_character(piece: bytes) -> str:
    """Return the first character after spaces; "" if it is not complete, or if there is none."""
    text = piece.strip().decode(errors="surrogateescape")[:1]
    return "" if "\udc80" <= text <= "\udcff" else text


def _reach(words: Numbers, others: Numbers, count: int) -> tuple[Numbers, Numbers]:
    """Return the first and the last word that each of `count` words is linked with."""
    low, high = np.full(count, UNLINKED), np.full(count, UNLINKED)
    np.minimum.at(low, words, others)
    high[words] = -1
    np.maximum.at(high, words, others)
    return low, high


def _of_length(
    length: int,
    src: SideWords,
    tgt: SideWords,
    there: tuple[Numbers, Numbers],
    back: tuple[Numbers, Numbers],
) -> Phrases:
    """Return the phrases whose source has so many words."""
    first = np.arange(max(0, src.starts.size - length + 1))
    last = first + length - 1
    low = np.min([there[0][first + step] for step in range(length)], axis=0)
    high = np.max([there[1][first + step] for step in range(length)], axis=0)
    # Words without a link are `UNLINKED` in `high`, so that their phrases are too long.
    fits = (high != UNLINKED) & (src.sentences[first] == src.sentences[last])
    fits[fits] = high[fits] - low[fits] < MAX_WORDS
    found = Phrases(first, last, low, high).only(fits)
    closed = tgt.can_begin(found.tgt_first)
    for step in range(MAX_WORDS):
        word = np.minimum(found.tgt_first + step, found.tgt_last)
        closed &= (back[0][word] >= found.src_first) & (back[1][word] <= found.src_last)
    return found.only(closed)
