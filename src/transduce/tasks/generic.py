"""Lines of any kind in, lines of any kind out: two files and a metric are enough."""

from collections.abc import Sequence
from typing import ClassVar

from transduce.search.hypothesis import Hypothesis
from transduce.tasks.base import Metric, Task
from transduce.tasks.degenerate import Fault
from transduce.tasks.error_rates import ExactMatch


class GenericTask(Task):
    """Any two files: a line is answered as a whole, and judged by `data.metric`."""

    name: ClassVar[str] = "generic"
    splits_lines: ClassVar[bool] = False

    @property
    def max_src_tokens(self) -> None:
        """A line is never cut into pieces."""

    def max_tgt_tokens(self, src_tokens: int) -> int:
        """Return the length of the source and 50 more, as for translation."""
        return src_tokens + 50

    def metric(self, references: Sequence[str]) -> Metric:  # noqa: ARG002
        """Return the share of exact answers, unless `data.metric` names another."""
        return ExactMatch()

    def fault_of(self, hypothesis: Hypothesis, src_ids: Sequence[int]) -> Fault | None:  # noqa: ARG002
        """Return whether the answer does not end; it may repeat symbols as it likes."""
        return None if hypothesis.is_finished else Fault.RUNAWAY


class AnswersTask(GenericTask):
    """Sums, reversals, questions about a story: every source has one right target."""

    name: ClassVar[str] = "answers"
