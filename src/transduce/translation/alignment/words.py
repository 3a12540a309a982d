"""Readable tokens, and the words that they make up."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transduce.text.scripts import continues_character, has_unspaced_script
from transduce.text.spelling import has_no_text, spelled

ENDS = {"< bos >": "‹start›", "< eos >": "‹end›", "< pad >": "‹padding›"}
"""Special tokens without text, and how they are displayed."""

_SPACE = "␣"
_MAX_CHARACTER_BYTES = 4  # of UTF-8


@dataclass(frozen=True)
class Words:
    """The tokens of one sentence in readable form, and the words that they make up."""

    tokens: tuple[str, ...]
    words: tuple[str, ...]
    word_of: tuple[int, ...]  # for each token, the number of its word
    ends: frozenset[int]  # numbers of the words that are special tokens without text

    def sums(self) -> NDArray[np.float32]:
        """Return the matrix [tokens, words] that sums over each word's tokens."""
        matrix = np.zeros((len(self.tokens), len(self.words)), dtype=np.float32)
        matrix[np.arange(len(self.tokens)), list(self.word_of)] = 1
        return matrix

    def means(self) -> NDArray[np.float32]:
        """Return the matrix [words, tokens] that averages over each word's tokens."""
        sums = self.sums()
        means: NDArray[np.float32] = (sums / sums.sum(axis=0, keepdims=True)).T
        return means


def words_of(tokens: Sequence[str], *, are_bytes: bool) -> Words:
    """Group vocabulary entries into words; `are_bytes`: their letters stand for bytes.

    A word is what stands between spaces. In scripts that are written without spaces, such as
    Japanese, each token is a word of its own; tokens that divide a character are one word.
    """
    pieces = spelled(tokens, are_bytes=are_bytes)
    words: list[bytes | None] = []
    word_of = []
    for place, piece in enumerate(pieces):
        last = words[-1] if words else None
        if piece is None or last is None or _starts_word(last, _text_from(pieces, place)):
            words.append(piece)
        else:
            words[-1] = last + piece
        word_of.append(len(words) - 1)
    ends = {
        word_of[place]: _displayed(token)
        for place, token in enumerate(tokens)
        if has_no_text(token)
    }
    return Words(
        tokens=tuple(
            _displayed(token) if piece is None else _readable(piece)
            for token, piece in zip(tokens, pieces, strict=True)
        ),
        words=tuple(
            ends[number] if word is None else _readable(word) for number, word in enumerate(words)
        ),
        word_of=tuple(word_of),
        ends=frozenset(ends),
    )


def _displayed(token: str) -> str:
    """Return how a token without text is displayed: the tag of a language as ‹2fr›."""
    return ENDS.get(token) or f"‹{token.strip('< >')}›"


def _text_from(pieces: Sequence[bytes | None], place: int) -> bytes:
    """Return a piece, followed by as much as its first character needs."""
    text = b""
    for piece in pieces[place:]:
        if piece is None or len(text) >= _MAX_CHARACTER_BYTES:
            break
        text += piece
    return text


def _starts_word(word: bytes, after: bytes) -> bool:
    """Return whether text starts a new word; leading spaces belong to the word after them."""
    before = word.decode(errors="replace")
    if not before.strip():
        return False
    following = after.decode(errors="replace")[:1]
    if before[-1].isspace() or following.isspace():
        return True
    is_divided = "\ufffd" in (before[-1], following) or continues_character(following or " ")
    return not is_divided and has_unspaced_script(before[-1] + following)


def _readable(piece: bytes) -> str:
    """Decode a piece; incomplete characters and control characters become escapes."""
    text = piece.decode(errors="backslashreplace")
    return "".join(map(_visible, text.strip())) or _SPACE


def _visible(character: str) -> str:
    # XML forbids these, so they would break an SVG; other invisible ones may join letters.
    is_forbidden = ord(character) & 0xFFFE == 0xFFFE
    if unicodedata.category(character) == "Cc" or is_forbidden:
        return character.encode("unicode_escape").decode()
    return character
