"""What `train` reports to its callback: the events of the journal, and four that no file keeps."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from transduce.config.schema import Config
from transduce.data.corpus import Pair
from transduce.training.data_summary import DataSummary
from transduce.training.plan.length import Length
from transduce.training.run.events import Event


@dataclass(frozen=True)
class Preparing:
    """Work before training, such as encoding the text: `done` of `total`, which is 0 if unknown."""

    name: str
    done: int = 0
    total: int = 0
    is_over: bool = False


@dataclass(frozen=True)
class Settled:
    """All settings are chosen; training starts, or resumes after `step` steps.

    `notes` are lines for the user: what was chosen for this machine and budget, and why, or what is
    left of a run that resumes.
    """

    folder: Path
    config: Config
    step: int
    notes: tuple[str, ...] = ()
    data: DataSummary | None = None
    planned: Length | None = None  # how long it should be; None: the run began earlier


@dataclass(frozen=True)
class Working:
    """Work between the steps and at the end, such as scoring.

    `done` of `total` sentences are translated; without a total, it is not known how much is done.
    """

    name: str
    done: int = 0
    total: int = 0
    is_over: bool = False


@dataclass(frozen=True)
class Translated:
    """Development sentences with the model's translations of now; their `Scored` event follows."""

    pairs: Sequence[Pair]
    hypotheses: Sequence[str]


ProgressCallback = Callable[[Event | Preparing | Settled | Working | Translated], None]
"""A callback for these events. Only the first process calls it, except for `Settled`."""


class Status:
    """Reports what a run does between its steps, as `Working` events."""

    def __init__(self, progress: ProgressCallback = lambda _event: None) -> None:
        self._progress = progress
        self._name = ""

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Name the work that is done in this context."""
        self._name = name
        self._progress(Working(name))
        try:
            yield
        finally:
            self._progress(Working(name, is_over=True))

    def report(self, done: int, total: int) -> None:
        """Report how many sentences are translated."""
        self._progress(Working(self._name, done, total))
