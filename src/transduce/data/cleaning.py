"""Cleaning: which pairs to train on, by mild rules, and a report of what they drop.

What is typical of a corpus is measured on its first pairs: the scripts of each side, and the length
ratio of target to source. So the rules need no list of languages.
"""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from itertools import chain, islice
from statistics import median
from typing import Self

import numpy as np
from numpy.typing import NDArray

from transduce.data.corpus import BrokenPair, Pair
from transduce.text.punctuation import with_plain_punctuation
from transduce.text.scripts import LATIN, ascii_letters, letters_by_script

SAMPLE_PAIRS = 10_000
BATCH_PAIRS = 10_000
EXAMPLES = 3

UNREADABLE = "unreadable"
EMPTY = "empty"
IDENTICAL = "source and target identical"
LONG = "too long"
RATIO = "length ratio"
NO_LETTERS = "mostly no letters"
SCRIPT = "wrong script"
HELD_OUT = "in the held-out text"
DUPLICATE = "duplicate"
FILTERS = (UNREADABLE, EMPTY, IDENTICAL, LONG, RATIO, NO_LETTERS, SCRIPT, HELD_OUT, DUPLICATE)


@dataclass(frozen=True)
class Rules:
    """The limits beyond which a pair is dropped."""

    max_chars: int = 1000  # of each side
    max_ratio: float = 4.0  # of the lengths, relative to what is typical of the corpus
    min_chars_for_ratio: int = 20  # of the longer side: "Yes." may well be "Jawohl, gewiss."
    min_letters: float = 0.3  # share of the characters that are not spaces
    min_script: float = 0.5  # share of the letters that are in the side's own scripts


DEFAULT_RULES = Rules()


@dataclass(frozen=True)
class CorpusProfile:
    """What is typical of a corpus, measured on a sample of it."""

    ratio: float  # characters of the target for one of the source
    src_scripts: frozenset[str]
    tgt_scripts: frozenset[str]

    @classmethod
    def measure(cls, sample: list[Pair]) -> Self:
        """Measure a sample; a script is a side's own if it has at least 1 % of the letters."""
        sample = [pair for pair in sample if not isinstance(pair, BrokenPair)]
        ratios = [len(pair.tgt) / len(pair.src) for pair in sample if pair.src and pair.tgt]
        return cls(
            ratio=median(ratios) if ratios else 1.0,
            src_scripts=_own_scripts(pair.src for pair in sample),
            tgt_scripts=_own_scripts(pair.tgt for pair in sample),
        )


@dataclass
class CleaningReport:
    """How many pairs were read and dropped, by filter, with the first examples of each filter."""

    pairs: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[tuple[int, Pair]]] = field(default_factory=dict)

    @property
    def kept(self) -> int:
        """The number of pairs that were not dropped."""
        return self.pairs - self.dropped.total()

    def record_all(self, pairs: Sequence[Pair], faults: Sequence[str | None]) -> None:
        """Count the next pairs, each under the filter that dropped it if one did."""
        before = self.pairs
        for number, fault in enumerate(faults):
            if fault is not None:
                self.pairs = before + number
                self.record(pairs[number], fault)
        self.pairs = before + len(pairs)

    def record(self, pair: Pair, fault: str | None) -> None:
        """Count the next pair, under the filter that dropped it if one did."""
        self.pairs += 1
        if fault is not None:
            self.dropped[fault] += 1
            examples = self.examples.setdefault(fault, [])
            if len(examples) < EXAMPLES:
                examples.append((self.pairs, pair))


def clean(
    pairs: Iterable[Pair],
    report: CleaningReport,
    *,
    rules: Rules = DEFAULT_RULES,
    held_out: Iterable[str] = (),
) -> Iterator[Pair]:
    """Stream the pairs to keep, and record all of them in the report.

    `held_out` are sentences of either language that must not be trained on: those of the
    development and test sets. Duplicates are found by a digest of 8 bytes per pair.
    """
    fit = partial(PairFilter.fit, rules=rules, held_out=held_out)
    for pair, fault in judge(pairs, fit, duplicates=DuplicateFilter()):
        report.record(pair, fault)
        if fault is None:
            yield pair


def judge(
    pairs: Iterable[Pair], fit: "FitFilter", *, duplicates: "DuplicateFilter | None" = None
) -> Iterator[tuple[Pair, str | None]]:
    """Stream all pairs in order, each with the name of the filter that drops it, or None."""
    pair_filter, batches = fit_to_stream(pairs, fit, batch_pairs=BATCH_PAIRS)
    for batch in batches:
        faults = pair_filter.faults(batch)
        if duplicates is not None:
            faults = duplicates.mark(faults, pair_filter.digests(batch))
        yield from zip(batch, faults, strict=True)


def fit_to_stream(
    pairs: Iterable[Pair], fit: "FitFilter", *, batch_pairs: int
) -> tuple["PairFilter", Iterator[list[Pair]]]:
    """Fit a filter to the first pairs of a stream; return it and all pairs, in batches."""
    stream = iter(pairs)
    sample = list(islice(stream, SAMPLE_PAIRS))
    return fit(sample), _batched(chain(sample, stream), batch_pairs)


def describe_dropped(dropped: Mapping[str, int]) -> str:
    """List how many pairs each filter dropped, such as `3 empty, 1 too long`."""
    return ", ".join(f"{count:,} {fault}" for fault, count in dropped.items())


def advice_on_dropped(dropped: Mapping[str, int]) -> str:
    """Say what a user can do if no pair is left."""
    if dropped.keys() <= {HELD_OUT}:
        return "give more text that is neither in the development set nor held out"
    if dropped.keys() == {IDENTICAL}:
        return "give the translation as the target, or --no-clean to learn to copy"
    return "--no-clean keeps pairs that only look odd"


@dataclass(frozen=True)
class PairFilter:
    """All filters that judge a pair by itself: all but the one for duplicates."""

    rules: Rules | None  # None: drop only held-out sentences and what cannot be read
    typical: CorpusProfile
    held_out: frozenset[int]
    is_plain: bool = False  # whether the model sees plain punctuation
    by_source: bool = False  # targets may be in the held-out text

    @classmethod
    def fit(
        cls,
        sample: list[Pair],
        *,
        rules: Rules | None,
        held_out: Iterable[str] = (),
        is_plain: bool = False,
        by_source: bool = False,
    ) -> Self:
        """Measure on a sample what is typical of the corpus."""
        hidden = frozenset(_digest(_as_seen(text, is_plain=is_plain)) for text in held_out)
        return cls(rules, CorpusProfile.measure(sample), hidden, is_plain, by_source)

    def faults(self, batch: list[Pair]) -> list[str | None]:
        """Return, for each pair, the name of the first filter that drops it, or None."""
        return [self._fault(pair) for pair in batch]

    def _fault(self, pair: Pair) -> str | None:
        if isinstance(pair, BrokenPair):
            return UNREADABLE
        fault = _fault(pair, self.rules, self.typical) if self.rules else None
        return HELD_OUT if fault is None and self._is_held_out(pair) else fault

    def _is_held_out(self, pair: Pair) -> bool:
        if not self.held_out:
            return False
        sides = self._as_seen(pair)[:1] if self.by_source else self._as_seen(pair)
        return not self.held_out.isdisjoint(map(_digest, sides))

    def digests(self, batch: list[Pair]) -> list[int]:
        """Digest each pair to a 64-bit number; duplicates have the same one."""
        seen = map(self._as_seen, batch)
        return [_digest(f"{len(src)} {src} {tgt}") for src, tgt in seen]

    def _as_seen(self, pair: Pair) -> Pair:
        src, tgt = (_as_seen(text, is_plain=self.is_plain) for text in pair)
        return Pair(src, tgt)


FitFilter = Callable[[list[Pair]], PairFilter]
"""Fits a filter to a sample of a corpus."""


class DuplicateFilter:
    """Finds repeated 64-bit digests; keeps them in sorted runs, 8 bytes each.

    Among 36 million pairs, the probability that two digests agree by chance is 0.00004.
    """

    def __init__(self) -> None:
        self._runs: list[NDArray[np.uint64]] = []

    def mark(self, faults: list[str | None], digests: list[int]) -> list[str | None]:
        """Add the digests of a batch; return its faults, with those of duplicates among them."""
        repeated = self.add(digests)
        return [
            fault or (DUPLICATE if again else None)
            for fault, again in zip(faults, repeated, strict=True)
        ]

    def add(self, digests: list[int]) -> list[bool]:
        """Add digests; return for each whether it came before, in this call or an earlier one."""
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
        as_list: list[bool] = repeated.tolist()
        return as_list


def _batched(pairs: Iterable[Pair], size: int) -> Iterator[list[Pair]]:
    stream = iter(pairs)
    while batch := list(islice(stream, size)):
        yield batch


def _fault(pair: Pair, rules: Rules, typical: CorpusProfile) -> str | None:
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
    most = len(text) - text.count(" ")
    # Most text is Latin: enough letters of ASCII decide, whatever the other characters are.
    if LATIN in scripts and ascii_letters(text) >= max(rules.min_letters, rules.min_script) * most:
        return None
    letters = letters_by_script(text)
    total = sum(letters.values())
    if total < rules.min_letters * most:
        return NO_LETTERS
    own = sum(count for script, count in letters.items() if script in scripts or not script)
    return SCRIPT if own < rules.min_script * total else None


def _own_scripts(texts: Iterable[str]) -> frozenset[str]:
    letters: Counter[str] = Counter()
    for text in texts:
        letters.update(letters_by_script(text))
    return frozenset(script for script, n in letters.items() if 100 * n >= letters.total())


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def _as_seen(text: str, *, is_plain: bool) -> str:
    """Return a text as the model sees it: stripped, in NFC, perhaps with plain punctuation.

    Texts that the model cannot tell apart become the same.
    """
    composed = unicodedata.normalize("NFC", text.strip())
    return with_plain_punctuation(composed) if is_plain else composed
