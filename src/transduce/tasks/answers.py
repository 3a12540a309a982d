"""Answers: every source has one right target, and only that is right."""

from collections.abc import Sequence
from typing import ClassVar

from transduce.search.hypothesis import Hypothesis
from transduce.tasks.base import Metric, Task
from transduce.tasks.degenerate import Fault


class ExactMatch(Metric):
    """The share of outputs that equal their reference, in per cent."""

    name: ClassVar[str] = "exact"

    def compute(self, hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
        """Return the share and its signature."""
        right = sum(map(str.__eq__, hypotheses, references))
        return 100 * right / len(references), "exact match, cased"


class AnswersTask(Task):
    """Sums, reversals, questions about a story: a line is answered as a whole."""

    name: ClassVar[str] = "answers"
    splits_lines: ClassVar[bool] = False

    @property
    def max_src_tokens(self) -> None:
        """A line is never cut into pieces."""

    def max_tgt_tokens(self, src_tokens: int) -> int:
        """Return the length of the source and 50 more, as for translation."""
        return src_tokens + 50

    def metric(self, references: Sequence[str]) -> Metric:  # noqa: ARG002
        """Return the share of exact answers."""
        return ExactMatch()

    def fault_of(self, hypothesis: Hypothesis, src_ids: Sequence[int]) -> Fault | None:  # noqa: ARG002
        """Return whether the answer does not end; it may repeat symbols as it likes."""
        return None if hypothesis.is_finished else Fault.RUNAWAY
