"""The units of a translation memory, indexed by their sources.

Texts lie end to end in one block of UTF-8. Exact matches are found by a digest of the source.
Similar ones are found by the words that they share: of two texts that agree in the share t of n
tokens, one of the n − ⌈t n⌉ + 1 rarest tokens of one is in the other.
"""

import math
import unicodedata
import zlib
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from transduce.errors import InputError
from transduce.tasks.error_rates import edit_distance
from transduce.translation.memory.similarity import tokens_of

MAX_UNITS = 5_000_000
MAX_TEXT_BYTES = 1 << 31
MAX_SIMILAR_TOKENS = 200
"""Longer texts are only found if they are the same."""
MAX_FOUND = 20_000
"""Units that share a word with a text and are looked at, those with the rarest words first."""
MAX_COMPARED = 200
"""Of these, the units whose tokens are compared: those that share the most rare words."""
BELOW_EXACT = 0.99
"""The similarity of texts that differ in their white space alone."""


@dataclass(frozen=True)
class MemoryMatch:
    """A unit that is the same as a text, or similar to it."""

    source: str
    target: str
    score: float  # 1: the same; else the share of tokens that agree
    is_used: bool = False  # the target is the translation, as it is


def normalised(text: str) -> str:
    """Return what is compared: composed characters, and single spaces between words."""
    return unicodedata.normalize("NFC", " ".join(text.split()))


class TranslationMemory:
    """Sources and their translations; of two units with the same source the last one counts."""

    def __init__(self, pairs: Iterable[tuple[str, str]], *, name: str = "the memory") -> None:
        """Index pairs; those with an empty side are left out."""
        texts, ends = bytearray(), array("Q", [0])
        digests, words, counts = array("Q"), array("I"), array("H")
        for source, target in pairs:
            source, target = normalised(source), target.strip()
            if not source or not target:
                continue
            for text in (source, target):
                texts += _encoded(text, name, len(digests) + 1)
                ends.append(len(texts))
            digests.append(_digest(source))
            tokens = tokens_of(source)
            is_short = len(tokens) <= MAX_SIMILAR_TOKENS
            words.extend(map(_hash, tokens) if is_short else ())
            counts.append(len(tokens) if is_short else 0)
            if len(digests) > MAX_UNITS or len(texts) > MAX_TEXT_BYTES:
                raise InputError(
                    f"{name} has more than {MAX_UNITS:,} units or {MAX_TEXT_BYTES:,} bytes of "
                    "text: divide it"
                )
        self._texts, self._ends = bytes(texts), np.frombuffer(ends, np.uint64)
        self._lengths = np.frombuffer(counts, np.uint16)
        given = np.frombuffer(digests, np.uint64)
        self._order = np.argsort(given, kind="stable").astype(np.uint32)
        self._digests = given[self._order]
        units = np.repeat(np.arange(len(digests), dtype=np.uint32), self._lengths)
        hashes = np.frombuffer(words, np.uint32)
        by_word = np.argsort(hashes, kind="stable")
        self._words, self._units = hashes[by_word], units[by_word]
        self.digest = blake2b(self._texts, digest_size=16).hexdigest()

    def __len__(self) -> int:
        """Count the units."""
        return len(self._order)

    def exact(self, text: str) -> MemoryMatch | None:
        """Find the last unit whose source is the same, but for white space."""
        text = normalised(text)
        wanted = np.uint64(_digest(text))
        place = int(np.searchsorted(self._digests, wanted, side="right")) - 1
        while place >= 0 and self._digests[place] == wanted:
            source, target = self._unit(int(self._order[place]))
            if source == text:
                return MemoryMatch(source, target, 1.0)
            place -= 1
        return None

    def similar(self, text: str, *, threshold: float) -> MemoryMatch | None:
        """Find the unit that is most similar to a text, if it is at least as much as that."""
        tokens = tokens_of(normalised(text))
        if not 0 < len(tokens) <= MAX_SIMILAR_TOKENS:
            return None
        best: tuple[float, int] = (0.0, -1)
        for unit, missing in self._candidates(tokens, threshold):
            longer = max(len(tokens), int(self._lengths[unit]))
            # The epsilon is for rounding: 10 tokens at 0.7 may differ in 3.
            most = math.floor((1 - max(threshold, best[0])) * longer + 1e-9)
            apart = longer - min(len(tokens), int(self._lengths[unit]))
            if max(missing, apart) > most:  # each of these tokens is deleted or replaced
                continue
            distance = edit_distance(tokens, tokens_of(self._unit(unit)[0]))
            if distance <= most:
                best = max(best, (min(1 - distance / longer, BELOW_EXACT), unit))
        if best[1] < 0:
            return None
        return MemoryMatch(*self._unit(best[1]), best[0])

    def _candidates(self, tokens: list[str], threshold: float) -> list[tuple[int, int]]:
        """Return units that may be similar enough, those that share the most words first.

        With each comes how many of the rare tokens it lacks at least: of a token that is in more
        units than are looked at, nothing is known.
        """
        hashes = np.array([_hash(token) for token in tokens], np.uint32)
        first, end = (np.searchsorted(self._words, hashes, side=side) for side in ("left", "right"))
        by_rarity = np.argsort(end - first, kind="stable")
        needed = math.ceil(threshold * len(tokens) - 1e-9)
        chosen = dict.fromkeys(
            (int(first[place]), int(end[place])) for place in by_rarity[: len(tokens) - needed + 1]
        )
        found: list[Any] = []
        room, known = MAX_FOUND, 0
        for start, stop in chosen:
            known += stop - start <= room
            found.append(self._units[start : min(stop, start + room)])
            room -= len(found[-1])
        # A unit that has a token twice counts once.
        units, shared = np.unique(
            np.concatenate([np.unique(one) for one in found]), return_counts=True
        )
        lacking = np.maximum(known - shared, 0)
        lengths = self._lengths[units].astype(np.int64)
        shorter, longer = np.minimum(lengths, len(tokens)), np.maximum(lengths, len(tokens))
        fits = shorter >= threshold * longer - 1e-9
        order = np.lexsort((-units[fits].astype(np.int64), -shared[fits]))
        order = order[:MAX_COMPARED]
        return list(zip(units[fits][order].tolist(), lacking[fits][order].tolist(), strict=True))

    def _unit(self, number: int) -> tuple[str, str]:
        begin, middle, end = (int(place) for place in self._ends[2 * number : 2 * number + 3])
        return self._texts[begin:middle].decode(), self._texts[middle:end].decode()


def _encoded(text: str, name: str, number: int) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as half:
        raise InputError(f"{name}: unit {number:,} has half of a surrogate pair") from half


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def _hash(token: str) -> int:
    """Return a number for a token that is the same in every process."""
    return zlib.crc32(token.encode())
