"""The tokens of a vocabulary as parts of phrases: which of them may touch a phrase."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from transduce.text.open_prefix import TokenTexts
from transduce.text.phrases.boundaries import Kind, is_word_character, kinds_of
from transduce.text.special_ids import EOS_ID, UNK_ID
from transduce.text.tokenizer import UNKNOWN, Tokenizer

_SILENT: tuple[Kind, ...] = ()
_END = (Kind.INSIDE,)


@dataclass(frozen=True)
class TokenClass:
    """Tokens with the same kinds of first and last characters."""

    kinds: tuple[Kind, ...]  # of these two
    tokens: list[int]  # a single space first

    @property
    def is_end(self) -> bool:
        """Whether it is that of EOS."""
        return self.kinds == _END


class PhraseVocabulary:
    """The texts of all tokens, sorted by their beginnings and by their ends."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.texts = list(TokenTexts(tokenizer).texts)
        self.texts[UNK_ID] = UNKNOWN.encode()  # as it is decoded
        self.kinds = [kinds_of(text) for text in self.texts]
        ranked = sorted((text, token) for token, text in enumerate(self.texts) if text)
        self._sorted = [text for text, _ in ranked]
        self._ranked = [token for _, token in ranked]
        reverse = sorted((text[::-1], token) for token, text in enumerate(self.texts) if text)
        self._sorted_by_end = [text for text, _ in reverse]
        self._ranked_by_end = [token for _, token in reverse]
        self._all_texts = b"\xff".join(self.texts)  # no text contains this byte, except one token
        self._offsets = np.cumsum([0, *(len(text) + 1 for text in self.texts)])
        self._longest = max(map(len, self.texts))
        self._touching = lru_cache(maxsize=4096)(self._tokens_touching)

    @cached_property
    def _classes(self) -> tuple[NDArray[np.int64], list[TokenClass]]:
        numbers: dict[tuple[Kind, ...], int] = {_SILENT: 0, _END: 1}
        columns: list[int] = []
        members: list[list[int]] = [[], []]
        for token, kinds in enumerate(self.kinds):
            last = [kind for kind in kinds if kind is not Kind.INSIDE][-1:]
            key = (kinds[0], *last) if kinds else _END if token == EOS_ID else _SILENT
            if key not in numbers:
                numbers[key] = len(members)
                members.append([])
            columns.append(numbers[key])
            members[columns[-1]].append(token)
        spaces = set(self._spelling(b" "))
        classes = [
            TokenClass(key, sorted(tokens, key=lambda token: token not in spaces))
            for key, tokens in zip(numbers, members, strict=True)
        ]
        return np.array(columns), classes

    @property
    def default_columns(self) -> NDArray[np.int64]:
        """The class of each token, which says what it does if it touches no phrase."""
        return self._classes[0]

    @property
    def classes(self) -> list[TokenClass]:
        """The classes of tokens: those without a text, EOS, and others by their characters."""
        return self._classes[1]

    @cached_property
    def separator(self) -> int:
        """The token of a space, which ends a word; −1: there is none."""
        return next(self._spelling(b" "), -1)

    def touching(self, alternatives: Sequence[str]) -> list[int]:
        """List the tokens that may begin, continue or complete one of several texts."""
        return sorted({token for text in alternatives for token in self._touching(text)})

    def _tokens_touching(self, text: str) -> frozenset[int]:
        phrase = text.encode()
        found = set(self._containing(phrase))
        for size in range(1, min(len(phrase), self._longest) + 1):
            found.update(self._that_begin_it(phrase[:size], is_word_character(text[0])))
            found.update(self._that_end_it(phrase[-size:], is_word_character(text[-1])))
            for start in range(1, len(phrase) - size):
                found.update(self._spelling(phrase[start : start + size]))
        return frozenset(found)

    def _containing(self, phrase: bytes) -> Iterator[int]:
        place = self._all_texts.find(phrase)
        while place >= 0:
            yield int(np.searchsorted(self._offsets, place, side="right")) - 1
            place = self._all_texts.find(phrase, place + 1)

    def _that_begin_it(self, begin: bytes, needs_break: bool) -> Iterator[int]:
        """Stream the tokens that end with the beginning of a phrase."""
        for token in _range(self._sorted_by_end, self._ranked_by_end, begin[::-1]):
            before = len(self.texts[token]) - len(begin)
            if before == 0 or not needs_break or self._last_kind(token, before) is not Kind.WORD:
                yield token

    def _last_kind(self, token: int, before: int) -> Kind:
        kinds = self.kinds[token][:before]
        return next((kind for kind in reversed(kinds) if kind is not Kind.INSIDE), Kind.UNKNOWN)

    def _that_end_it(self, end: bytes, needs_break: bool) -> Iterator[int]:
        """Stream the tokens that begin with the end of a phrase."""
        for token in _range(self._sorted, self._ranked, end):
            kinds = self.kinds[token]
            if len(kinds) == len(end) or not needs_break or kinds[len(end)] is not Kind.WORD:
                yield token

    def _spelling(self, text: bytes) -> Iterator[int]:
        place = bisect_left(self._sorted, text)
        while place < len(self._sorted) and self._sorted[place] == text:
            yield self._ranked[place]
            place += 1

    def spellings(self, alternatives: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each text at the beginning, and after a space."""
        led = [f" {text}" for text in alternatives]
        return self.tokenizer.encode_targets([*alternatives, *led])


def _range(texts: list[bytes], tokens: list[int], begin: bytes) -> list[int]:
    """Return the tokens whose texts begin so."""
    first = bisect_left(texts, begin)
    last = bisect_left(texts, begin + b"\xff" * 8)
    return tokens[first:last]
