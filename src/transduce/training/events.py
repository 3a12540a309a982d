"""What happens in a run, as it is told to whoever watches: the display, the journal, the curves.

The journal keeps these as JSON lines, so their fields are its format.
"""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Started:
    """The run begins, or goes on after `step` steps."""

    step: int
    pairs: int
    parameters: int
    device: str
    precision: str
    processes: int
    seconds: float  # of training before this sitting


@dataclass(frozen=True)
class Compiling:
    """The next step takes longer: its kernels are made."""

    step: int


@dataclass(frozen=True)
class Stepped:
    """Some steps were made; numbers with "mean" are over the steps since the last such event."""

    step: int
    epoch: int  # from 1
    epoch_share: float  # of the epoch's batches, 0 to 1
    loss: float  # mean, smoothed, in nats a target token
    learning_rate: float
    gradient_norm: float  # mean, before clipping
    tokens: int  # source and target tokens learnt from since step 0
    tokens_per_s: float  # mean, source and target, in training alone
    seconds: float  # since step 0, over all sittings
    share_done: float  # of the budget that will end the run first, 0 to 1; 0 where none is set


@dataclass(frozen=True)
class Scored:
    """The development set was scored."""

    step: int
    loss: float  # nats a target token, without smoothing
    perplexity: float
    bleu: float | None
    signature: str  # of the BLEU
    best: bool  # of all so far, by the loss
    seconds: float


@dataclass(frozen=True)
class Saved:
    """A checkpoint is whole and on the disk."""

    step: int
    path: str


@dataclass(frozen=True)
class Skipped:
    """Steps whose loss was not finite or leapt were not taken; `batches` names them."""

    step: int
    count: int
    batches: str


@dataclass(frozen=True)
class WentBack:
    """Too many steps in a row were skipped: the weights are those of an earlier checkpoint."""

    step: int  # where it happened
    to: int
    batches: str


@dataclass(frozen=True)
class MemoryLowered:
    """A batch did not fit into memory: from now on at most this many padded tokens at a time."""

    step: int
    tokens: int


@dataclass(frozen=True)
class Finished:
    """The run is over: why, and which weights the model folder holds."""

    step: int
    reason: str
    weights: str
    seconds: float


Event = (
    Started | Compiling | Stepped | Scored | Saved | Skipped | WentBack | MemoryLowered | Finished
)
Tell = Callable[[Event], None]
