"""ROUGE (Lin 2004): how many words, pairs of words and words in order two texts share."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from transduce.tasks.base import AdditiveMetric, Scores

_WORD = re.compile(r"[^\W_]+")


class Rouge(AdditiveMetric):
    """The mean over lines of the F1 of ROUGE-L, from 0 to 100; ROUGE-1 and ROUGE-2 beside it."""

    name: ClassVar[str] = "ROUGE-L"
    signature: ClassVar[str] = "F1, mean of lines|words:letters and digits|case:lower|stemmer:no"

    def counts(self, hypothesis: str, reference: str) -> tuple[float, ...]:
        """Return the F1 of ROUGE-L, 1 and 2, and 1 for the line."""
        ours, theirs = (_WORD.findall(text.lower()) for text in (hypothesis, reference))
        in_order = f1(longest_common(ours, theirs), len(ours), len(theirs))
        return in_order, _shared(ours, theirs, 1), _shared(ours, theirs, 2), 1.0

    def scores(self, sums: Sequence[float]) -> Scores:
        """Return the means, ROUGE-L first."""
        *totals, lines = sums
        names = (self.name, "ROUGE-1", "ROUGE-2")
        return {
            name: 100 * total / lines if lines else 0.0
            for name, total in zip(names, totals, strict=True)
        }


def f1(shared: int, of_ours: int, of_theirs: int) -> float:
    """Return the harmonic mean of precision and recall; 0 where nothing is shared."""
    return 2 * shared / (of_ours + of_theirs) if shared else 0.0


def longest_common(ours: Sequence[str], theirs: Sequence[str]) -> int:
    """Return how many words the longest sequence has that both contain in order."""
    before = [0] * (len(theirs) + 1)
    for word in ours:
        now = [0]
        for column, other in enumerate(theirs):
            longer = before[column] + 1 if word == other else max(before[column + 1], now[-1])
            now.append(longer)
        before = now
    return before[-1]


def _shared(ours: Sequence[str], theirs: Sequence[str], n: int) -> float:
    counts = [
        Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
        for words in (ours, theirs)
    ]
    return f1((counts[0] & counts[1]).total(), counts[0].total(), counts[1].total())
