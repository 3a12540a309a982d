"""Which pairs are fit to learn from: mild rules, and a report of all that they drop.

What is typical of a corpus is learnt from its first pairs: the scripts of either side, and how long
a translation is beside its source. So the rules need no list of languages.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from itertools import chain, islice
from statistics import median

import numpy as np
from numpy.typing import NDArray

from transduce.data.corpus import Pair

SAMPLE_PAIRS = 10_000
BATCH_PAIRS = 10_000
EXAMPLES = 3


@dataclass(frozen=True)
class Rules:
    """How far a pair may stray."""

    max_chars: int = 1000  # either side
    max_ratio: float = 4.0  # of lengths, against what is typical of the corpus
    min_chars_for_ratio: int = 20  # of the longer side: "Yes." may well be "Jawohl, gewiss."
    min_letters: float = 0.3  # share of what is not space
    min_script: float = 0.5  # share of letters in the side's own scripts


@dataclass(frozen=True)
class Typical:
    """What a corpus looks like, learnt from a sample of it."""

    ratio: float  # characters of the target for one of the source
    src_scripts: frozenset[str]
    tgt_scripts: frozenset[str]

    @classmethod
    def of(cls, sample: list[Pair]) -> "Typical":
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

    def drop(self, fault: str, number: int, pair: Pair) -> None:
        """Count a pair under the first filter that caught it."""
        self.dropped[fault] += 1
        examples = self.examples.setdefault(fault, [])
        if len(examples) < EXAMPLES:
            examples.append((number, pair))


EMPTY = "empty"
IDENTICAL = "source and target identical"
LONG = "too long"
RATIO = "length ratio"
NO_LETTERS = "mostly no letters"
SCRIPT = "wrong script"
HELD_OUT = "in the held-out text"
DUPLICATE = "duplicate"
FILTERS = (EMPTY, IDENTICAL, LONG, RATIO, NO_LETTERS, SCRIPT, HELD_OUT, DUPLICATE)


def clean(
    pairs: Iterable[Pair],
    report: Report,
    *,
    rules: Rules | None = None,
    held_out: Iterable[str] = (),
) -> Iterator[Pair]:
    """Stream the pairs that are fit, and tell the report of the others.

    `held_out` are sentences, of either language, that must not be learnt from: those of the
    development and test sets. Takes 8 bytes of memory a pair, to know duplicates by.
    """
    stream = iter(pairs)
    sample = list(islice(stream, SAMPLE_PAIRS))
    rules, typical, seen = rules or Rules(), Typical.of(sample), Seen()
    hidden = {_digest(sentence) for sentence in held_out}
    stream = chain(sample, stream)
    while batch := list(islice(stream, BATCH_PAIRS)):
        repeated = seen.add([_digest(f"{pair.src}\n{pair.tgt}") for pair in batch])
        for pair, is_repeated in zip(batch, repeated, strict=True):
            report.pairs += 1
            fault = _fault(pair, rules, typical)
            if fault is None and hidden and not hidden.isdisjoint(map(_digest, pair)):
                fault = HELD_OUT
            if fault is None and is_repeated:
                fault = DUPLICATE
            if fault is None:
                yield pair
            else:
                report.drop(fault, report.pairs, pair)


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
    longer, shorter = (
        max(len(src) * typical.ratio, len(tgt)),
        min(len(src) * typical.ratio, len(tgt)),
    )
    if max(len(src), len(tgt)) > rules.max_chars:
        return LONG
    if longer >= rules.min_chars_for_ratio and longer > rules.max_ratio * shorter:
        return RATIO
    for text, scripts in ((src, typical.src_scripts), (tgt, typical.tgt_scripts)):
        letters = _letters(text)
        if letters.total() < rules.min_letters * _visible(text):
            return NO_LETTERS
        own = sum(count for script, count in letters.items() if script in scripts or not script)
        if own < rules.min_script * letters.total():
            return SCRIPT
    return None


def _own_scripts(texts: Iterable[str]) -> frozenset[str]:
    letters = sum((_letters(text) for text in texts), Counter[str]())
    return frozenset(script for script, n in letters.items() if 100 * n >= letters.total())


_ASCII_OTHER = re.compile(r"[\x00-@\[-`{-\x7f]+")
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")


def _letters(text: str) -> Counter[str]:
    """Count letters by script."""
    beyond = _BEYOND_ASCII.findall(text)
    plain = len(_ASCII_OTHER.sub("", text)) - len(beyond)
    letters = Counter({"LATIN": plain})
    for character, count in Counter(beyond).items():
        script = _script(character)
        if script is not None:
            letters[script] += count
    return letters


def _visible(text: str) -> int:
    return len("".join(text.split()))


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
