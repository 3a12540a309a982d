"""The events of a run, reported to the display, the journal, the curves and to callbacks.

The journal keeps these as JSON lines, so their fields are its format.
"""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Started:
    """The run starts, or resumes after `step` steps."""

    step: int
    pairs: int
    parameters: int
    device: str
    precision: str
    processes: int
    seconds: float  # of training before this session


@dataclass(frozen=True)
class Compiling:
    """The next step takes longer: it is compiled."""

    step: int


@dataclass(frozen=True)
class Stepped:
    """Some steps were taken; a "mean" is over the steps since the last such event."""

    step: int
    epoch: int  # from 1
    epoch_share: float  # of the epoch's batches, 0 to 1
    loss: float  # mean, with label smoothing, in nats per target token
    learning_rate: float
    gradient_norm: float  # mean, before clipping
    tokens: int  # source and target tokens trained on since step 0
    tokens_per_s: float  # mean, source and target, in training alone
    seconds: float  # since step 0, over all sessions
    share_done: float  # of the budget that will end the run first, 0 to 1; 0 without a budget


@dataclass(frozen=True)
class Scored:
    """The development set was scored."""

    step: int
    loss: float  # in nats per target token, without label smoothing
    perplexity: float
    best: bool  # whether these are the best weights so far
    seconds: float  # since step 0, over all sessions
    best_by: str = "loss"  # what `best` goes by: "loss" or "metric"
    metric: str | None = None  # the name of the task's metric; None: nothing was translated
    score: float | None = None  # by that metric
    signature: str = ""  # of that score
    higher_is_better: bool = True  # False where the metric is an error rate
    parts: dict[str, float] = field(default_factory=dict, hash=False)  # scores of directions, files


@dataclass(frozen=True)
class Saved:
    """A complete checkpoint is on the disk."""

    step: int
    path: str


@dataclass(frozen=True)
class Skipped:
    """Steps whose loss was not finite or spiked were not taken; `batches` names their data."""

    step: int
    count: int
    batches: str


@dataclass(frozen=True)
class RolledBack:
    """Too many steps in a row were skipped: the weights are those of an earlier checkpoint."""

    step: int  # at which it happened
    to: int  # the step of the checkpoint
    batches: str


@dataclass(frozen=True)
class MemoryLowered:
    """A batch did not fit into memory: from now on at most this many padded tokens at a time."""

    step: int
    tokens: int


@dataclass(frozen=True)
class Warned:
    """The user should know something about the settings of this run."""

    step: int
    message: str


@dataclass(frozen=True)
class Finished:
    """The run has ended: why, and which weights the model folder holds."""

    step: int
    reason: str
    weights: str
    seconds: float
    choice: str = ""  # the scores that decided between the weights, the best first
    loss: float | None = None  # of these weights on the development set; None: not recorded
    metric: str | None = None  # the name of the task's metric; None: nothing was translated
    score: float | None = None  # of these weights by that metric
    signature: str = ""  # of that score
    higher_is_better: bool = True
    parts: dict[str, float] = field(default_factory=dict, hash=False)  # scores of directions, files


Event = (
    Started
    | Compiling
    | Stepped
    | Scored
    | Saved
    | Skipped
    | RolledBack
    | MemoryLowered
    | Warned
    | Finished
)
Tell = Callable[[Event], None]
