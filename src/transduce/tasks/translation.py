"""Translation, the task of the paper: BLEU, and limits as in §6.1."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from transduce.search.hypothesis import Hypothesis
from transduce.tasks.base import Metric, Task
from transduce.tasks.degenerate import Fault, fault_of
from transduce.tasks.metrics import Bleu
from transduce.tasks.tokenization import choose_tokenization


@dataclass(frozen=True)
class TranslationTask(Task):
    """Sentences of one language in, sentences of another out."""

    name: ClassVar[str] = "translation"
    hardly_usable: ClassVar[float | None] = 5.0

    @property
    def max_src_tokens(self) -> int:
        """The longest piece: longer sentences are rare in training and seldom translated well."""
        return 250

    def max_tgt_tokens(self, src_tokens: int) -> int:
        """Return the length of the source and 50 more (§6.1)."""
        return src_tokens + 50

    def metric(self, references: Sequence[str]) -> Metric:
        """Return BLEU; of characters where the script has no spaces between words."""
        return Bleu(choose_tokenization(references).bleu)

    def fault_of(self, hypothesis: Hypothesis, src_ids: Sequence[int]) -> Fault | None:
        """Return whether the hypothesis is empty, repeats itself, or does not end."""
        return fault_of(hypothesis, src_ids)
