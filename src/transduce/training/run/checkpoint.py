"""Checkpoints of a run: folders of safetensors and JSON, each complete or absent.

A checkpoint is a folder, named by its step, that is written under another name, synced and renamed.
It is written before the development set is scored, and its scores are added to it afterwards, so a
run that is killed while scoring loses nothing. Older ones keep only their weights.
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
from transduce.models.folder import WEIGHTS, load_weights, save_weights
from transduce.models.model_files import STATE, checkpoint_name
from transduce.training.run.scores import Criterion, Scores
from transduce.training.step.schedule import Spent

FORMAT = 1
RENAMED_FIELDS = {"in_rows": "packed", "went_back": "rollbacks"}
"""The current names of fields of a checkpoint's progress, by their names in version 0.1."""
OPTIMISER, MOVING_AVERAGE = "optimiser.safetensors", "ema.safetensors"

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

    @property
    def spent(self) -> Spent:
        """What of the budgets is spent."""
        epochs = self.epoch + self.batches_done / max(1, self.epoch_batches)
        return Spent(self.step, epochs, self.seconds)

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> Self:
        """Read the progress from a checkpoint, of this version or of 0.1."""
        found = {"packed": False, "scoring_seconds": 0.0} | {
            RENAMED_FIELDS.get(name, name): value for name, value in tree.items()
        }
        if "best_loss" in found:  # version 0.1 always went by the loss
            loss = found["best_loss"]
            found["best"] = None if loss is None else {"loss": loss, "metric": None}
        known = {one.name: found[one.name] for one in fields(cls)}
        best = known["best"] and Scores.from_json(known["best"])
        return cls(**known | {"guard": tuple(known["guard"]), "best": best})


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
        try:
            state = json.loads(path.read_text(encoding="utf-8"))
            if state["format"] != FORMAT:
                raise InputError(
                    f"{path} has format {state['format']} but this version reads {FORMAT}: "
                    "use the version of transduce that wrote it"
                )
            progress = Progress.from_json(state["progress"])
            scores = Scores.from_json(state["scores"]) if state["scores"] else None
        except _DAMAGED as damaged:
            raise InputError(
                f"{path} is damaged ({damaged}); restore it from a copy, or delete {folder}"
            ) from damaged
        return cls(folder, progress, scores)

    @property
    def step(self) -> int:
        """The number of steps taken so far."""
        return self.progress.step

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
        return [Checkpoint.read(path) for path in sorted(self.folder.glob("step-" + "[0-9]" * 12))]

    def newest(self) -> Checkpoint | None:
        """Return the checkpoint to resume from."""
        everything = self.all()
        whole = [found for found in everything if (found.folder / OPTIMISER).exists()]
        if everything and not whole:
            raise InputError(
                f"no checkpoint in {self.folder} has its {OPTIMISER}, so the run cannot resume: "
                "restore the one that was removed, or start over with --fresh"
            )
        return whole[-1] if whole else None

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

        Only the newest keeps its optimiser state.
        """
        everything = self.all()
        scored = [found for found in everything if found.scores is not None]
        last, best = scored[-self.keep_last :], self._ranked(scored)[: self.keep_best]
        kept = {found.step for found in [*everything[-1:], *last, *best]}
        for found in everything:
            if found.step not in kept:
                _remove(found.folder)
        for found in everything[:-1]:
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
        making.write_text(json.dumps(state, indent=1), encoding="utf-8")


def _remove(folder: Path) -> None:
    """Remove a folder; one that is removed halfway is not taken for a checkpoint."""
    removed = folder.with_suffix(".removed")
    shutil.rmtree(removed, ignore_errors=True)
    folder.rename(removed)
    shutil.rmtree(removed, ignore_errors=True)
