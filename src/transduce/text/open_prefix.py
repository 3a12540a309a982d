"""What a text must start with, where the last word may be unfinished.

The tokens of an unfinished word are not the first tokens of the whole one: `Schw` may be `Sch` and
`w`, and `Schwester` one token. So only the words before it are given as tokens. The last word is
given as bytes, and every token is allowed that agrees with them.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

from transduce.text.spelling import has_no_text, spelled, spelled_as_word
from transduce.text.tokenizer import SPECIALS, Tokenizer

MAX_OPEN_BYTES = 48
"""The longest ending; more of a text without spaces is given as tokens."""


@dataclass(frozen=True)
class OpenPrefix:
    """Tokens, and the bytes that the text of the tokens after them must start with."""

    ids: list[int]
    ending: bytes = b""

    def after(self, ids: list[int]) -> "OpenPrefix":
        """Return it with other tokens before it."""
        return replace(self, ids=[*ids, *self.ids]) if ids else self


@dataclass(frozen=True)
class Continuations:
    """The tokens that agree with the rest of an ending."""

    first: int  # tokens with ranks from this one on …
    end: int  # … and before this one contain all of the rest
    partial: list[int]  # these tokens are a part of it; others can spell what is left


class TokenTexts:
    """The texts of all tokens of a target vocabulary, ranked by their bytes."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._texts = _texts(tokenizer)
        ranked = sorted((text, token) for token, text in enumerate(self._texts) if text)
        self._sorted = [text for text, _ in ranked]
        self._tokens_of: dict[bytes, list[int]] = {}
        for text, token in ranked:
            self._tokens_of.setdefault(text, []).append(token)
        # Tokens without a text come after all others.
        self.ranks = [len(self._texts)] * len(self._texts)
        for rank, (_, token) in enumerate(ranked):
            self.ranks[token] = rank

    @property
    def texts(self) -> list[bytes]:
        """The bytes of each token; b"" for special ones."""
        return self._texts

    @property
    def sizes(self) -> list[int]:
        """The number of bytes of each token."""
        return [len(text) for text in self._texts]

    def opened(self, text: str) -> OpenPrefix:
        """Cut the last word off a text, unless a space says that it is complete.

        What no tokens can spell stays with its tokens.
        """
        text = self._tokenizer.normalised_target(text)
        if text.endswith(" "):
            gap = b"" if self._tokenizer.is_pretokenized else b" "
            prefix = OpenPrefix(self._encoded(text.rstrip(" ")), gap)
        else:
            words, space, last = text.rpartition(" ")
            space = "" if self._tokenizer.is_pretokenized else space or self._first_space
            prefix = OpenPrefix(self._encoded(words), (space + last).encode())
        if len(prefix.ending) > MAX_OPEN_BYTES:
            prefix = self._with_short_ending(text)
        can_be_spelt = self.continuations(prefix.ending) is not None
        return prefix if can_be_spelt else OpenPrefix(self._encoded(text.rstrip(" ")))

    def continuations(self, ending: bytes) -> list[Continuations] | None:
        """Return what may follow each number of its bytes; None if no tokens can spell it."""
        found: list[Continuations] = []
        can_end = [False] * len(ending) + [True]
        for start in reversed(range(len(ending))):
            rest = ending[start:]
            after = rest[:-1] + bytes([rest[-1] + 1])  # no byte of UTF-8 is 255
            first, end = bisect_left(self._sorted, rest), bisect_left(self._sorted, after)
            partial = [
                token
                for size in range(1, len(rest))
                if can_end[start + size]
                for token in self._tokens_of.get(rest[:size], [])[:1]
            ]
            can_end[start] = first < end or bool(partial)
            found.append(Continuations(first, end, partial))
        return found[::-1] if can_end[0] else None

    @property
    def _first_space(self) -> str:
        """SentencePiece writes a space before the first word too."""
        return "" if self._tokenizer.is_byte_level else " "

    def _encoded(self, text: str) -> list[int]:
        return self._tokenizer.encode_targets([text])[0]

    def _with_short_ending(self, text: str) -> OpenPrefix:
        """Give as tokens what is too far from the end."""
        ids = self._encoded(text)
        start, size = len(ids), 0
        while start > 0 and self._texts[ids[start - 1]]:
            size += len(self._texts[ids[start - 1]])
            if size > MAX_OPEN_BYTES:
                break
            start -= 1
        return OpenPrefix(ids[:start], b"".join(self._texts[token] for token in ids[start:]))


def _texts(tokenizer: Tokenizer) -> list[bytes]:
    """Return the bytes of every token; b"" for special ones."""
    names = tokenizer.tokens(range(len(tokenizer)))
    if tokenizer.is_pretokenized:
        texts: Sequence[bytes | None] = [
            None if has_no_text(name) else spelled_as_word(name) for name in names
        ]
    else:
        texts = spelled(names, are_bytes=tokenizer.is_byte_level)
    return [b"" if token < len(SPECIALS) else text or b"" for token, text in enumerate(texts)]
