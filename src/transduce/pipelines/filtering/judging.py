"""Faults of pairs that need no model: rules of cleaning, near duplicates, other languages."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple

from transduce.data.cleaning import (
    BATCH_PAIRS,
    DEFAULT_RULES,
    DuplicateFilter,
    PairFilter,
    judge,
)
from transduce.data.corpus import Pair
from transduce.text.detection import LanguageDetector

NEAR_DUPLICATE = "near duplicate"
OTHER_LANGUAGE = "other language"
MIN_CONFIDENCE = 0.95
"""How sure the detector must be that a text is in another language: it errs on short ones."""
MIN_DETECTED_CHARS = 20
_NO_LETTERS = re.compile(r"[\W_]+")
_DIGITS = re.compile(r"\d+")


class JudgedPair(NamedTuple):
    """A pair and its fault; None: it has none so far."""

    pair: Pair
    fault: str | None


def judged_pairs(pairs: Iterable[Pair]) -> Iterator[JudgedPair]:
    """Stream all pairs in order, each with the name of the rule that it breaks, or None.

    Rules are fitted to the first pairs; duplicates take 16 bytes of memory a pair.
    """
    fit = partial(PairFilter.fit, rules=DEFAULT_RULES)
    near = DuplicateFilter()
    stream = judge(pairs, fit, duplicates=DuplicateFilter())
    while batch := list(islice(stream, BATCH_PAIRS)):
        sound = [number for number, (_, fault) in enumerate(batch) if fault is None]
        again = near.add([near_digest(batch[number][0]) for number in sound]) if sound else []
        repeated = {number for number, is_again in zip(sound, again, strict=True) if is_again}
        for number, (pair, fault) in enumerate(batch):
            yield JudgedPair(pair, NEAR_DUPLICATE if number in repeated else fault)


def near_digest(pair: Pair) -> int:
    """Digest a pair so that others with the same letters have the same number.

    Case, punctuation, spaces and the digits of numbers do not count.
    """
    src, tgt = (_DIGITS.sub("0", _NO_LETTERS.sub("", text.casefold())) for text in pair)
    content = f"{len(src)} {src} {tgt}".encode()
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little")


class LanguageRule:
    """Finds texts that are not in their language."""

    def __init__(self, detector: LanguageDetector, languages: Sequence[str]) -> None:
        """`languages` are the codes of source and target."""
        self._detector = detector
        self._languages = [code.partition("-")[0] for code in languages]

    def fault(self, pair: Pair) -> str | None:
        """Return what is wrong with the language of a pair, or None."""
        for text, language in zip(pair, self._languages, strict=True):
            if len(text) < MIN_DETECTED_CHARS:
                continue
            best = self._detector.detect(text)[0]
            if best.code != language and best.confidence >= MIN_CONFIDENCE:
                return OTHER_LANGUAGE
        return None
