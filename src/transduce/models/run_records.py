"""What a run notes about itself, read and checked: its provenance, and the states of checkpoints.

A folder may come from another version, a broken disk or a stranger. What has not the expected form
is reported in one line, wherever it is read. What this version does not know is left as it is.
"""

import reprlib
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from transduce.errors import InputError
from transduce.files.checksums import RECORD_CHECKSUM, check_record
from transduce.files.regular import MIB, read_json

MAX_RECORD_BYTES = 16 * MIB

_Name = Annotated[str, Field(max_length=100, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]  # on one line
_Step = Annotated[int, Field(ge=0)]


class _Record(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow", frozen=True)


_R = TypeVar("_R", bound=_Record)


class RecordedMetric(_Record):
    """The score of the task's metric."""

    name: _Name
    score: float


class RecordedScores(_Record):
    """The scores of some weights; a loss of None: they were not scored."""

    loss: float | None = None
    metric: RecordedMetric | None = None
    bleu: float | None = None  # so in version 0.1, which knew no other metric


class _RecordedProgress(_Record):
    best: RecordedScores | None = None
    best_loss: float | None = None  # so in version 0.1
    seconds: float = 0.0  # of training and scoring


class CheckpointState(_Record):
    """What the `state.json` of a checkpoint tells about its weights."""

    progress: _RecordedProgress = _RecordedProgress()
    scores: RecordedScores | None = None

    @property
    def best_loss(self) -> float | None:
        """The dev loss of the best weights so far."""
        best = self.progress.best
        return self.progress.best_loss if best is None else best.loss


class _BudgetChange(_Record):
    step: _Step
    changed: dict[_Name, Annotated[list[float | None], Field(min_length=2, max_length=2)]]
    was_finished: bool = True


class _Provenance(_Record):
    began: str = ""
    versions: dict[str, str] = {}
    commit: str | None = None
    seed: int = 0
    data: dict[str, str] = {}
    given: dict[str, Any] = {}
    preset: str | None = None
    split_seed: int = 0
    dev_set: str | None = None
    loss_pairs: Annotated[int, Field(ge=1)] | None = None
    tokenizer: str | None = None
    init: str | None = None
    budgets: list[_BudgetChange] = []


def read_provenance(path: Path, *, remedy: str = "restore it from a copy") -> dict[str, Any]:
    """Read the provenance of a run as it was written; raise unless its entries have their form."""
    tree = _read(path, remedy)
    _checked(_Provenance, tree, path, remedy)
    edited = f'if you have changed it yourself, remove its entry "{RECORD_CHECKSUM}"; else {remedy}'
    check_record(tree, path, edited)
    return {name: value for name, value in tree.items() if name != RECORD_CHECKSUM}


def read_state(path: Path) -> CheckpointState:
    """Read the state of a checkpoint."""
    remedy = f"restore it from a copy, or delete {path.parent}"
    tree = _read(path, remedy)
    check_record(tree, path, remedy)
    return _checked(CheckpointState, tree, path, remedy)


def _read(path: Path, remedy: str) -> Any:
    try:
        return read_json(path, max_bytes=MAX_RECORD_BYTES)
    except (OSError, ValueError) as damaged:
        raise InputError(f"{path} is damaged ({damaged}): {remedy}") from damaged


def _checked(kind: type[_R], tree: Any, path: Path, remedy: str) -> _R:
    try:
        return kind.model_validate(tree)
    except ValidationError as malformed:
        first = malformed.errors(include_url=False)[0]
        name = ".".join(map(str, first["loc"])) or "it"
        fault = "missing" if first["type"] == "missing" else reprlib.repr(first["input"])
        raise InputError(f"{path} is damaged ({name} is {fault}): {remedy}") from malformed
