"""What `train` reports to its callback: the events of the journal, and three that no file keeps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from transduce.config.schema import Config
from transduce.data.corpus import Pair
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
    """All settings are chosen; training starts, or resumes after `step` steps."""

    folder: Path
    config: Config
    step: int


@dataclass(frozen=True)
class Translated:
    """Development sentences with the model's translations of now; their `Scored` event follows."""

    pairs: Sequence[Pair]
    hypotheses: Sequence[str]


ProgressCallback = Callable[[Event | Preparing | Settled | Translated], None]
"""A callback for these events. Only the first process calls it, except for `Settled`."""
