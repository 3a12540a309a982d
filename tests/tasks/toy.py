"""A task of another package: its models write text backwards, and are judged by an error rate."""

from collections.abc import Sequence
from typing import ClassVar

from transduce.search.hypothesis import Hypothesis
from transduce.tasks.base import Metric, Task
from transduce.tasks.degenerate import Fault


class WrongCharacters(Metric):
    """The share of positions in which a text differs from its reference, in per cent."""

    name: ClassVar[str] = "wrong"
    higher_is_better: ClassVar[bool] = False

    def compute(self, hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
        pairs = list(zip(hypotheses, references, strict=True))
        total = sum(max(len(a), len(b)) for a, b in pairs)
        right = sum(x == y for a, b in pairs for x, y in zip(a, b, strict=False))
        return 100 * (total - right) / total, "toy|version:1"


class Backwards(Task):
    """The model writes the target text from its end."""

    name: ClassVar[str] = "backwards"

    @property
    def max_src_tokens(self) -> None:
        return None

    def max_tgt_tokens(self, src_tokens: int) -> int:
        return 2 * src_tokens + 10

    def metric(self, references: Sequence[str]) -> Metric:
        del references
        return WrongCharacters()

    def fault_of(self, hypothesis: Hypothesis, src_ids: Sequence[int]) -> Fault | None:
        del src_ids
        return None if hypothesis.is_finished else Fault.RUNAWAY

    def to_target(self, text: str) -> str:
        return text[::-1]

    def from_target(self, text: str) -> str:
        return text[::-1]


class Misnamed(Backwards):
    """A task whose entry point has another name."""


NOT_A_TASK = WrongCharacters
