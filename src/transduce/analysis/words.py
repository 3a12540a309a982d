"""Readable tokens, and the words between spaces that they make up."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from transduce.text.tokenizer import UNKNOWN

ENDS = {"< bos >": "‹start›", "< eos >": "‹end›", "< pad >": "‹padding›"}
"""Special tokens without text, and how they are displayed."""

_SPACE = "␣"
_BEFORE_A_WORD = "▁"  # how SentencePiece writes a space
_JOINED = "@@"  # in pre-segmented text, at the end of a token whose word goes on


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
    """Group vocabulary entries into words; `are_bytes`: their letters stand for bytes."""
    if not are_bytes and any(_BEFORE_A_WORD in token for token in tokens):
        spell = _spelled_by_sentencepiece
    else:
        spell = partial(_spelled, are_bytes=are_bytes)
    spelled = [None if token in ENDS else spell(token) for token in tokens]
    words: list[bytes | None] = []
    word_of = []
    for piece in spelled:
        last = words[-1] if words else None
        if piece is None or last is None or _starts_word(last, piece):
            words.append(piece)
        else:
            words[-1] = last + piece
        word_of.append(len(words) - 1)
    ends = {word_of[place]: ENDS[token] for place, token in enumerate(tokens) if token in ENDS}
    return Words(
        tokens=tuple(
            ENDS[token] if piece is None else _readable(piece)
            for token, piece in zip(tokens, spelled, strict=True)
        ),
        words=tuple(
            ends[number] if word is None else _readable(word) for number, word in enumerate(words)
        ),
        word_of=tuple(word_of),
        ends=frozenset(ends),
    )


def _byte_letters() -> dict[str, int]:
    """Map letters to bytes: printable bytes are their own letters, the others from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = sorted(set(range(256)) - set(printable))
    return {chr(byte): byte for byte in printable} | {
        chr(0x100 + place): byte for place, byte in enumerate(others)
    }


_BYTE_OF = _byte_letters()


def _spelled(token: str, are_bytes: bool) -> bytes:
    """Return the text of a token, with the space before or after it."""
    if token == UNKNOWN:
        return "‹unk› ".encode()
    if are_bytes:
        return b"".join(
            bytes([_BYTE_OF[letter]]) if letter in _BYTE_OF else letter.encode() for letter in token
        )
    is_joined = token.endswith(_JOINED)
    return (token.removesuffix(_JOINED) if is_joined else f"{token} ").encode()


def _spelled_by_sentencepiece(token: str) -> bytes:
    return ("‹unk›" if token == UNKNOWN else token.replace(_BEFORE_A_WORD, " ")).encode()


def _starts_word(word: bytes, piece: bytes) -> bool:
    """Return whether a piece starts a new word; leading spaces belong to the word after them."""
    text = word.decode(errors="replace")
    after = piece.decode(errors="replace")
    return bool(text.strip()) and (text[-1:].isspace() or after[:1].isspace())


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
