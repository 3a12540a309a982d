"""Which pairs are fit to learn from: mild rules, and a report of all that they drop.

What is typical of a corpus is learnt from its first pairs: the scripts of either side, and how long
a translation is beside its source. So the rules need no list of languages.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from itertools import chain, islice
from statistics import median
from typing import Self

import numpy as np
from numpy.typing import NDArray

from transduce.data.corpus import Pair
from transduce.text.punctuation import plainly

SAMPLE_PAIRS = 10_000
BATCH_PAIRS = 10_000
EXAMPLES = 3


EMPTY = "empty"
IDENTICAL = "source and target identical"
LONG = "too long"
RATIO = "length ratio"
NO_LETTERS = "mostly no letters"
SCRIPT = "wrong script"
HELD_OUT = "in the held-out text"
DUPLICATE = "duplicate"
FILTERS = (EMPTY, IDENTICAL, LONG, RATIO, NO_LETTERS, SCRIPT, HELD_OUT, DUPLICATE)


@dataclass(frozen=True)
class Rules:
    """How far a pair may stray."""

    max_chars: int = 1000  # either side
    max_ratio: float = 4.0  # of lengths, against what is typical of the corpus
    min_chars_for_ratio: int = 20  # of the longer side: "Yes." may well be "Jawohl, gewiss."
    min_letters: float = 0.3  # share of what is not space
    min_script: float = 0.5  # share of letters in the side's own scripts


DEFAULT_RULES = Rules()


@dataclass(frozen=True)
class Typical:
    """What a corpus looks like, learnt from a sample of it."""

    ratio: float  # characters of the target for one of the source
    src_scripts: frozenset[str]
    tgt_scripts: frozenset[str]

    @classmethod
    def of(cls, sample: list[Pair]) -> Self:
        """Learn it; a script counts as a side's own from a hundredth of its letters on."""
        ratios = [len(pair.tgt) / len(pair.src) for pair in sample if pair.src and pair.tgt]
        return cls(
            ratio=median(ratios) if ratios else 1.0,
            src_scripts=_own_scripts(pair.src for pair in sample),
            tgt_scripts=_own_scripts(pair.tgt for pair in sample),
        )


@dataclass
class Report:
    """What was read and what was dropped, filter by filter, with the first examples of each."""

    pairs: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[tuple[int, Pair]]] = field(default_factory=dict)

    @property
    def kept(self) -> int:
        """How many pairs are left."""
        return self.pairs - self.dropped.total()

    def told(
        self, batch: list[Pair], faults: list[str | None], repeated: list[bool]
    ) -> list[str | None]:
        """Count the next pairs, each under the first filter that caught it; return those."""
        caught = [
            f or (DUPLICATE if again else None) for f, again in zip(faults, repeated, strict=True)
        ]
        for number, (pair, fault) in enumerate(
            zip(batch, caught, strict=True), start=self.pairs + 1
        ):
            if fault is not None:
                self.dropped[fault] += 1
                examples = self.examples.setdefault(fault, [])
                if len(examples) < EXAMPLES:
                    examples.append((number, pair))
        self.pairs += len(batch)
        return caught


def clean(
    pairs: Iterable[Pair],
    report: Report,
    *,
    rules: Rules = DEFAULT_RULES,
    held_out: Iterable[str] = (),
) -> Iterator[Pair]:
    """Stream the pairs that are fit, and tell the report of the others.

    `held_out` are sentences, of either language, that must not be learnt from: those of the
    development and test sets. Keeps 8 bytes a pair, to know duplicates by.
    """
    sample, stream = sampled(pairs)
    sieve, seen = Sieve.of(sample, rules=rules, held_out=held_out), Seen()
    for batch in batched(stream, BATCH_PAIRS):
        faults = sieve.faults(batch)
        repeated = seen.add(sieve.digests(batch))
        for pair, fault in zip(batch, report.told(batch, faults, repeated), strict=True):
            if fault is None:
                yield pair


def sampled(pairs: Iterable[Pair]) -> tuple[list[Pair], Iterator[Pair]]:
    """Return the first pairs, to learn from, and all of them."""
    stream = iter(pairs)
    sample = list(islice(stream, SAMPLE_PAIRS))
    return sample, chain(sample, stream)


def batched(pairs: Iterable[Pair], size: int) -> Iterator[list[Pair]]:
    """Cut a stream into lists."""
    stream = iter(pairs)
    while batch := list(islice(stream, size)):
        yield batch


@dataclass(frozen=True)
class Sieve:
    """All filters but the one for duplicates: what can be said of a pair by itself."""

    rules: Rules | None  # None: only what is held out is caught
    typical: Typical
    held_out: frozenset[int]
    is_plain: bool = False  # whether a model sees plain punctuation

    @classmethod
    def of(
        cls,
        sample: list[Pair],
        *,
        rules: Rules | None,
        held_out: Iterable[str] = (),
        is_plain: bool = False,
    ) -> Self:
        """Learn what is typical from a sample."""
        hidden = frozenset(_digest(_seen(text, is_plain=is_plain)) for text in held_out)
        return cls(rules, Typical.of(sample), hidden, is_plain)

    def faults(self, batch: list[Pair]) -> list[str | None]:
        """Name the first filter that catches each pair."""
        return [self._fault(pair) for pair in batch]

    def _fault(self, pair: Pair) -> str | None:
        fault = _fault(pair, self.rules, self.typical) if self.rules else None
        if (
            fault is None
            and self.held_out
            and not self.held_out.isdisjoint(map(_digest, self._seen(pair)))
        ):
            return HELD_OUT
        return fault

    def digests(self, batch: list[Pair]) -> list[int]:
        """Digest pairs to numbers to know them again by."""
        seen = map(self._seen, batch)
        return [_digest(f"{len(src)} {src} {tgt}") for src, tgt in seen]

    def _seen(self, pair: Pair) -> Pair:
        src, tgt = (_seen(text, is_plain=self.is_plain) for text in pair)
        return Pair(src, tgt)


class Seen:
    """Remembers 64-bit digests in sorted runs, 8 bytes each.

    Among 36 million, that two agree by chance has a probability of 0.00004.
    """

    def __init__(self) -> None:
        self._runs: list[NDArray[np.uint64]] = []

    def add(self, digests: list[int]) -> list[bool]:
        """Say of each whether it came before, in this call or an earlier one."""
        found = np.array(digests, dtype=np.uint64)
        repeated = np.ones(found.size, dtype=bool)
        repeated[np.unique(found, return_index=True)[1]] = False
        for run in self._runs:
            nearest = np.searchsorted(run, found).clip(max=run.size - 1)
            repeated |= run[nearest] == found
        if not repeated.all():
            self._runs.append(np.sort(found[~repeated]))
        while len(self._runs) > 1 and self._runs[-2].size <= 2 * self._runs[-1].size:
            self._runs[-2:] = [np.sort(np.concatenate(self._runs[-2:]))]
        answers: list[bool] = repeated.tolist()
        return answers


def _fault(pair: Pair, rules: Rules, typical: Typical) -> str | None:
    src, tgt = pair.src.strip(), pair.tgt.strip()
    if not src or not tgt:
        return EMPTY
    if src == tgt:
        return IDENTICAL
    if len(src) > rules.max_chars or len(tgt) > rules.max_chars:
        return LONG
    shorter, longer = sorted((len(src) * typical.ratio, len(tgt)))
    if longer >= rules.min_chars_for_ratio and longer > rules.max_ratio * shorter:
        return RATIO
    return _letter_fault(src, rules, typical.src_scripts) or _letter_fault(
        tgt, rules, typical.tgt_scripts
    )


def _letter_fault(text: str, rules: Rules, scripts: frozenset[str]) -> str | None:
    letters = _letters(text)
    total = sum(letters.values())
    if total < rules.min_letters * (len(text) - text.count(" ")):
        return NO_LETTERS
    own = sum(count for script, count in letters.items() if script in scripts or not script)
    return SCRIPT if own < rules.min_script * total else None


def _own_scripts(texts: Iterable[str]) -> frozenset[str]:
    letters: Counter[str] = Counter()
    for text in texts:
        letters.update(_letters(text))
    return frozenset(script for script, n in letters.items() if 100 * n >= letters.total())


_NOT_ASCII_LETTERS = bytes(n for n in range(128) if not chr(n).isalpha())


def _letters(text: str) -> dict[str, int]:
    """Count letters by script."""
    letters = {"LATIN": len(text.encode("ascii", "ignore").translate(None, _NOT_ASCII_LETTERS))}
    if not text.isascii():
        for character in text:
            script = _script(character) if character > "\x7f" else None
            if script is not None:
                letters[script] = letters.get(script, 0) + 1
    return letters


@cache
def _script(character: str) -> str | None:
    """Name a letter's script by the first word of its Unicode name; accents belong to any."""
    category = unicodedata.category(character)
    if category[0] not in "LM":
        return None
    name = unicodedata.name(character, "").partition(" ")[0]
    return "" if name in ("COMBINING", "MODIFIER", "") else name


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def _seen(text: str, *, is_plain: bool) -> str:
    """Return what a model sees of a text, without spaces around it: its NFC form, as it normalises.

    Where its punctuation is plain, signs that it cannot tell apart are the same.
    """
    composed = unicodedata.normalize("NFC", text.strip())
    return plainly(composed) if is_plain else composed
