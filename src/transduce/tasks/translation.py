"""Translation, the task of the paper: BLEU, and limits as in §6.1."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from transduce.search.hypothesis import Hypothesis
from transduce.tasks.base import Metric, Task
from transduce.tasks.degenerate import Fault, fault_of
from transduce.tasks.metrics import Bleu

UNSPACED_WORD_CHARS = 12
"""Where "words" between spaces are longer than this on average, the script has no spaces."""


@dataclass(frozen=True)
class TranslationTask(Task):
    """Sentences of one language in, sentences of another out."""

    name: ClassVar[str] = "translation"

    @property
    def max_src_tokens(self) -> int:
        """The longest piece: longer sentences are rare in training and seldom translated well."""
        return 250

    def max_tgt_tokens(self, src_tokens: int) -> int:
        """Return the length of the source and 50 more (§6.1)."""
        return src_tokens + 50

    def metric(self, references: Sequence[str]) -> Metric:
        """Return BLEU; of characters where the script has no spaces between words."""
        words = " ".join(references).split()
        has_spaces = sum(map(len, words)) <= UNSPACED_WORD_CHARS * len(words)
        return Bleu("13a" if has_spaces else "char")

    def fault_of(self, hypothesis: Hypothesis, src_ids: Sequence[int]) -> Fault | None:
        """Return whether the hypothesis is empty, repeats itself, or does not end."""
        return fault_of(hypothesis, src_ids)
