"""Checkpoints of a run: folders of safetensors and JSON, each complete or absent.

A checkpoint is a folder, named by its step, that is written under another name, synced and renamed.
It is written before the development set is scored, and its scores are added to it afterwards, so a
run that is killed while scoring loses nothing. The newest two can be resumed: if one is damaged,
the run goes on from the other. Older ones keep only their weights.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

from torch import Tensor

from transduce.errors import InputError, TransduceError
from transduce.files.atomic import atomic_file, atomic_folder
from transduce.files.checksums import DamagedFileError, check_record, with_checksum
from transduce.files.regular import read_json
from transduce.models.folder import WEIGHTS, load_weights, save_weights
from transduce.models.model_files import STATE, checkpoint_name
from transduce.models.run_records import MAX_RECORD_BYTES
from transduce.training.run.scores import Criterion, Scores, as_typed
from transduce.training.step.schedule import Spent

FORMAT = 1
RENAMED_FIELDS = {"in_rows": "packed", "went_back": "rollbacks"}
"""The current names of fields of a checkpoint's progress, by their names in version 0.1."""
OPTIMISER, MOVING_AVERAGE = "optimiser.safetensors", "ema.safetensors"
RESUMABLE = 2
"""How many checkpoints keep all that is needed to resume."""

_DAMAGED = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True)
class Progress:
    """How far a run has come: all of its state except the tensors."""

    step: int = 0
    epoch: int = 0
    batches_done: int = 0  # of the epoch
    epoch_batches: int = 0  # in the epoch; 0 before its first step
    packed: bool = False  # whether the epoch's batches are packed; kept on any machine
    tokens: int = 0  # source and target tokens trained on so far
    seconds: float = 0.0  # of training and scoring
    scoring_seconds: float = 0.0
    best: Scores | None = None  # the best so far, by the run's criterion
    scorings_since_best: int = 0
    skipped: int = 0
    skipped_in_a_row: int = 0
    rollbacks: int = 0  # since the last checkpoint
    max_tokens: int | None = None  # padded tokens that fit into memory at a time
    guard: tuple[float, ...] = (0.0, 0.0)
    stage: int = 0  # of the weights of the epoch's corpora, from 0
    epochs_cut: float = 0.0  # what epochs lack that ended with their stage

    @property
    def spent(self) -> Spent:
        """What of the budgets is spent."""
        epochs = self.epoch + self.batches_done / max(1, self.epoch_batches)
        return Spent(self.step, epochs - self.epochs_cut, self.seconds)

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> Self:
        """Read the progress from a checkpoint, of this version or of 0.1."""
        added = {"packed": False, "scoring_seconds": 0.0, "stage": 0, "epochs_cut": 0.0}
        found = added | {RENAMED_FIELDS.get(name, name): value for name, value in tree.items()}
        if "best_loss" in found:  # version 0.1 always went by the loss
            loss = found["best_loss"]
            found["best"] = None if loss is None else {"loss": loss, "metric": None}
        known = {one.name: found[one.name] for one in fields(cls)}
        best = known["best"] and Scores.from_json(known["best"])
        return as_typed(cls, known | {"guard": tuple(known["guard"]), "best": best})


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on the disk, without its tensors."""

    folder: Path
    progress: Progress
    scores: Scores | None  # None: no scoring was due, or the run was killed before it

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read all but the tensors."""
        path = folder / STATE
        remedy = f"restore it from a copy, or delete {folder}"
        try:
            state = read_json(path, max_bytes=MAX_RECORD_BYTES)
            if state["format"] != FORMAT:
                raise InputError(
                    f"{path} has format {state['format']} but this version reads {FORMAT}: "
                    "use the version of transduce that wrote it"
                )
            check_record(state, path, remedy)
            progress = Progress.from_json(state["progress"])
            scores = Scores.from_json(state["scores"]) if state["scores"] else None
        except PermissionError as fault:
            raise InputError(f"cannot read {path}: {fault.strerror}") from fault
        except _DAMAGED as damaged:
            raise DamagedFileError(path, str(damaged), remedy) from damaged
        return cls(folder, progress, scores)

    @property
    def step(self) -> int:
        """The number of steps taken so far."""
        return self.progress.step

    @property
    def is_resumable(self) -> bool:
        """Whether it has all that is needed to resume."""
        return (self.folder / OPTIMISER).exists()

    def check_weights(self) -> None:
        """Raise `DamagedFileError` unless its weights can be read and are finite."""
        _check_finite(self.folder / WEIGHTS, self.weights())

    def check_all(self) -> None:
        """Raise `DamagedFileError` unless all its tensors can be read and are finite."""
        self.check_weights()
        _check_finite(self.folder / OPTIMISER, self.moments())
        _check_finite(self.folder / MOVING_AVERAGE, self.moving_average() or {})

    def weights(self) -> dict[str, Tensor]:
        """Read the weights."""
        return load_weights(self.folder / WEIGHTS)

    def moments(self) -> dict[str, Tensor]:
        """Read the optimiser's tensors."""
        return load_weights(self.folder / OPTIMISER)

    def moving_average(self) -> dict[str, Tensor] | None:
        """Read the moving average of the weights, where the run keeps one."""
        path = self.folder / MOVING_AVERAGE
        return load_weights(path) if path.exists() else None


@dataclass(frozen=True)
class Checkpoints:
    """All checkpoints of a run."""

    folder: Path
    keep_last: int
    keep_best: int
    criterion: Criterion = field(default_factory=Criterion)  # decides which are the best

    def all(self) -> list[Checkpoint]:
        """Read all checkpoints, in the order of their steps."""
        return [Checkpoint.read(path) for path in self._folders()]

    def _folders(self) -> list[Path]:
        return sorted(self.folder.glob("step-" + "[0-9]" * 12))

    def newest(self) -> Checkpoint | None:
        """Return the checkpoint to resume from."""
        everything = self.all()
        whole = [found for found in everything if found.is_resumable]
        if everything and not whole:
            raise InputError(
                f"no checkpoint in {self.folder} has its {OPTIMISER}, so the run cannot resume: "
                "restore the one that was removed, or start over with --fresh"
            )
        return whole[-1] if whole else None

    def set_aside_damaged(self) -> list[str]:
        """Rename the damaged checkpoints that are newer than a sound one; say which, and why.

        If there is no sound one to resume from, raise and leave them as they are.
        """
        damaged: dict[Path, DamagedFileError] = {}
        sound: Checkpoint | None = None
        for folder in reversed(self._folders()):
            try:
                found = Checkpoint.read(folder)
                if sound is None and found.is_resumable:
                    found.check_all()
                    sound = found
            except DamagedFileError as fault:
                damaged[folder] = fault
        if damaged and sound is None:
            raise next(iter(damaged.values()))
        goes_on = f"going on from step {sound.step:,}" if sound else ""
        return [f"{_set_aside(folder, fault)}, {goes_on}" for folder, fault in damaged.items()]

    def set_aside_damaged_weights(self) -> list[str]:
        """Rename the checkpoints whose weights are damaged, except the newest; say which, and why.

        All weights are read, so this is for the end of a run.
        """
        notes = []
        for folder in self._folders()[:-1]:
            try:
                Checkpoint.read(folder).check_weights()
            except DamagedFileError as fault:
                notes.append(f"{_set_aside(folder, fault)}, and its weights are not considered")
        return notes

    def scored(self) -> list[Checkpoint]:
        """Return the checkpoints that were scored, in the order of their steps."""
        return [found for found in self.all() if found.scores is not None]

    def best_first(self) -> list[Checkpoint]:
        """Return the checkpoints that were scored, the best first."""
        return self._ranked(self.scored())

    def save(
        self,
        progress: Progress,
        *,
        weights: Mapping[str, Tensor],
        moments: Mapping[str, Tensor],
        moving_average: Mapping[str, Tensor] | None,
    ) -> Checkpoint:
        """Write a checkpoint; if that fails, earlier ones stay intact."""
        folder = self.folder / checkpoint_name(progress.step)
        try:
            with atomic_folder(folder) as making:
                save_weights(making / WEIGHTS, weights, metadata={})
                save_weights(making / OPTIMISER, moments, metadata={})
                if moving_average is not None:
                    save_weights(making / MOVING_AVERAGE, moving_average, metadata={})
                _write_state(making, progress, None)
        except (OSError, InputError) as fault:
            raise self._not_written(progress.step, fault) from fault
        return Checkpoint(folder, progress, None)

    def add_scores(self, checkpoint: Checkpoint, progress: Progress, scores: Scores) -> Checkpoint:
        """Write the scores of a checkpoint, and the progress that they lead to."""
        try:
            _write_state(checkpoint.folder, progress, scores)
        except OSError as fault:
            raise self._not_written(progress.step, fault) from fault
        return replace(checkpoint, progress=progress, scores=scores)

    def prune(self) -> None:
        """Remove checkpoints that are neither recent nor among the best.

        Only the newest two keep their optimiser state.
        """
        everything = self.all()
        scored = [found for found in everything if found.scores is not None]
        last, best = scored[-self.keep_last :], self._ranked(scored)[: self.keep_best]
        kept = {found.step for found in [*everything[-RESUMABLE:], *last, *best]}
        for found in everything:
            if found.step not in kept:
                _remove(found.folder)
        for found in everything[:-RESUMABLE]:
            (found.folder / OPTIMISER).unlink(missing_ok=True)

    def remove_leftovers(self) -> None:
        """Remove what a killed process left behind while it wrote or removed a checkpoint."""
        for left in (*self.folder.glob("*.making"), *self.folder.glob("*.removed")):
            shutil.rmtree(left, ignore_errors=True)

    def _ranked(self, scored: list[Checkpoint]) -> list[Checkpoint]:
        return sorted(scored, key=lambda found: self.criterion.rank(found.scores))

    def _not_written(self, step: int, fault: Exception) -> TransduceError:
        newest = self.newest()
        rest = (
            f"the one of step {newest.step:,} is intact: free some disk space and run the same "
            "command again"
            if newest
            else "free some disk space and run the same command again"
        )
        reason = getattr(fault, "strerror", None) or fault
        return TransduceError(f"cannot write the checkpoint of step {step:,} ({reason}); {rest}")


def _write_state(folder: Path, progress: Progress, scores: Scores | None) -> None:
    state: dict[str, Any] = {
        "format": FORMAT,
        "progress": asdict(progress),
        "scores": asdict(scores) if scores else None,
    }
    with atomic_file(folder / STATE) as making:
        making.write_text(json.dumps(with_checksum(state), indent=1), encoding="utf-8")


def _check_finite(path: Path, tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        if not bool(tensor.isfinite().all()):
            reason = f"{name} has values that are NaN or infinite"
            raise DamagedFileError(path, reason, f"restore it from a copy, or delete {path.parent}")


def _set_aside(folder: Path, fault: DamagedFileError) -> str:
    """Rename a checkpoint so that it is not taken for one, and say so."""
    aside = folder.with_suffix(".damaged")
    shutil.rmtree(aside, ignore_errors=True)
    folder.rename(aside)
    return f"{fault.path} is damaged ({fault.reason}): set aside as {aside.name}"


def _remove(folder: Path) -> None:
    """Remove a folder; one that is removed halfway is not taken for a checkpoint."""
    removed = folder.with_suffix(".removed")
    shutil.rmtree(removed, ignore_errors=True)
    folder.rename(removed)
    shutil.rmtree(removed, ignore_errors=True)
