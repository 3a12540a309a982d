"""Where a run stands, on the disk: safetensors and JSON, complete or not there.

A checkpoint is a folder, named by its step, that is written under another name, synced and renamed.
It is written before the development set is scored, and its scores are added to it afterwards, so a
run that is killed while scoring has lost nothing. Older ones keep only their weights.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

from torch import Tensor

from transduce.disk import in_the_making, replacing
from transduce.errors import InputError, TransduceError
from transduce.models.folder import WEIGHTS, load_weights, save_weights

FORMAT = 1
STATE, OPTIMISER, MOVING_AVERAGE = "state.json", "optimiser.safetensors", "ema.safetensors"


@dataclass(frozen=True)
class Progress:
    """Where a run stands, but for its tensors."""

    step: int = 0
    epoch: int = 0
    batches_done: int = 0  # of the epoch
    epoch_batches: int = 0  # in it; 0 before its first step
    in_rows: bool = False  # whether its batches are rows: another machine keeps to that
    tokens: int = 0  # source and target, learnt from so far
    seconds: float = 0.0  # of training and scoring
    best_loss: float | None = None  # on the development set
    scorings_since_best: int = 0
    skipped: int = 0
    skipped_in_a_row: int = 0
    went_back: int = 0  # times since the last checkpoint
    max_tokens: int | None = None  # padded, that fit into memory at a time
    guard: tuple[float, ...] = (0.0, 0.0)


@dataclass(frozen=True)
class Scores:
    """What the development set said of some weights."""

    loss: float  # nats a target token, without smoothing
    bleu: float | None = None
    signature: str = ""


@dataclass(frozen=True)
class Checkpoint:
    """One of them, with what is known of it."""

    folder: Path
    progress: Progress
    scores: Scores | None  # None: written in between, or killed before it was scored

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
            found = {"in_rows": False} | state["progress"]  # which old ones do not say
            known = {field.name: found[field.name] for field in fields(Progress)}
            progress = Progress(**known | {"guard": tuple(known["guard"])})
            scores = Scores(**state["scores"]) if state["scores"] else None
        except (OSError, ValueError, KeyError, TypeError) as damaged:
            raise InputError(
                f"{path} is damaged ({damaged}); bring back a copy of it, or delete {folder}"
            ) from damaged
        return cls(folder, progress, scores)

    @property
    def step(self) -> int:
        """The steps made so far."""
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

    def all(self) -> list[Checkpoint]:
        """Read them from the first to the last."""
        return [Checkpoint.read(path) for path in sorted(self.folder.glob("step-" + "[0-9]" * 12))]

    def newest(self) -> Checkpoint | None:
        """Return the one to go on from."""
        everything = self.all()
        whole = [found for found in everything if (found.folder / OPTIMISER).exists()]
        if everything and not whole:
            raise InputError(
                f"no checkpoint in {self.folder} has its {OPTIMISER}, so the run cannot go on: "
                "bring back the one that was removed, or start over with --fresh"
            )
        return whole[-1] if whole else None

    def scored(self) -> list[Checkpoint]:
        """Return those that were scored, from the first to the last."""
        return [found for found in self.all() if found.scores is not None]

    def save(
        self,
        progress: Progress,
        *,
        weights: Mapping[str, Tensor],
        moments: Mapping[str, Tensor],
        moving_average: Mapping[str, Tensor] | None,
    ) -> Checkpoint:
        """Write a checkpoint; if that fails, those before it are whole."""
        folder = self.folder / f"step-{progress.step:012}"
        try:
            with in_the_making(folder) as making:
                save_weights(making / WEIGHTS, weights, metadata={})
                save_weights(making / OPTIMISER, moments, metadata={})
                if moving_average is not None:
                    save_weights(making / MOVING_AVERAGE, moving_average, metadata={})
                _write_state(making, progress, None)
        except (OSError, InputError) as fault:
            raise self._not_written(progress.step, fault) from fault
        return Checkpoint(folder, progress, None)

    def add_scores(self, checkpoint: Checkpoint, progress: Progress, scores: Scores) -> Checkpoint:
        """Write down what the development set said."""
        try:
            _write_state(checkpoint.folder, progress, scores)
        except OSError as fault:
            raise self._not_written(progress.step, fault) from fault
        return replace(checkpoint, progress=progress, scores=scores)

    def prune(self) -> None:
        """Remove what nobody will ask for: old ones, and what only the newest needs."""
        everything, scored = self.all(), self.scored()
        best = sorted(scored, key=lambda found: found.scores.loss if found.scores else 0.0)
        kept = {
            found.step
            for found in [*everything[-1:], *scored[-self.keep_last :], *best[: self.keep_best]]
        }
        for found in everything:
            if found.step not in kept:
                _remove(found.folder)
        for found in everything[:-1]:
            (found.folder / OPTIMISER).unlink(missing_ok=True)

    def remove_left(self) -> None:
        """Clear away what a killed process had begun to write or to remove."""
        for left in (*self.folder.glob("*.making"), *self.folder.glob("*.removed")):
            shutil.rmtree(left, ignore_errors=True)

    def _not_written(self, step: int, fault: Exception) -> TransduceError:
        newest = self.newest()
        rest = (
            f"the one of step {newest.step:,} is whole: make room and run the same command again"
            if newest
            else "make room and run the same command again"
        )
        reason = getattr(fault, "strerror", None) or fault
        return TransduceError(f"cannot write the checkpoint of step {step:,} ({reason}); {rest}")


def _write_state(folder: Path, progress: Progress, scores: Scores | None) -> None:
    state: dict[str, Any] = {
        "format": FORMAT,
        "progress": asdict(progress),
        "scores": asdict(scores) if scores else None,
    }
    with replacing(folder / STATE) as making:
        making.write_text(json.dumps(state, indent=1), encoding="utf-8")


def _remove(folder: Path) -> None:
    """Remove a folder so that half of it is never taken for one."""
    removed = folder.with_suffix(".removed")
    shutil.rmtree(removed, ignore_errors=True)
    folder.rename(removed)
    shutil.rmtree(removed, ignore_errors=True)
