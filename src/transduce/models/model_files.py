"""Which files are a model: of a model folder, of a run that is not over, or of one checkpoint.

Other processes may write and remove checkpoints at the same time. A checkpoint is complete or
absent, so one that cannot be read has been removed.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transduce.config.load import load_config
from transduce.errors import InputError
from transduce.models.run_records import (
    CheckpointState,
    RecordedScores,
    read_provenance,
    read_state,
)

CONFIG, TOKENIZER, WEIGHTS = "config.yaml", "tokenizer.json", "model.safetensors"
CHECKPOINTS, STATE = "checkpoints", "state.json"
PROVENANCE, CARD = "provenance.json", "README.md"
BUDGET_CHANGES, WAS_FINISHED = "budgets", "was_finished"
"""The key of the provenance under which changes of the budget are kept, in their order, and the key
of a change that says whether the run was finished then: it reopened the run."""

_NAME = re.compile(r"step-([0-9]{1,12})")


@dataclass(frozen=True)
class ModelFiles:
    """Where a model's settings and tokenizer are, and where its weights."""

    folder: Path  # of the settings and the tokenizer
    weights: Path
    note: str | None = None  # which weights these are; None: those that a run ended with
    is_choice: bool = False  # whether they were chosen among the checkpoints of a run

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files of the model."""
        return self.folder / CONFIG, self.folder / TOKENIZER, self.weights


@dataclass(frozen=True)
class _Found:
    """A checkpoint of a run, as its `state.json` tells it."""

    folder: Path
    step: int
    state: CheckpointState

    @property
    def loss(self) -> float | None:
        """The dev loss; None: it was not scored."""
        return self.state.scores.loss if self.state.scores else None


def checkpoint_name(step: int) -> str:
    """Return the name of the folder of a checkpoint."""
    return f"step-{step:012}"


def checkpoint_folders(run: Path) -> dict[int, Path]:
    """Return the folders of a run's checkpoints by step, in order."""
    try:
        names = [entry.name for entry in os.scandir(run / CHECKPOINTS)]
    except OSError:
        return {}
    steps = sorted(int(name[5:]) for name in names if re.fullmatch(r"step-[0-9]{12}", name))
    return {step: run / CHECKPOINTS / checkpoint_name(step) for step in steps}


def trained_so_far(run: Path) -> tuple[int, float]:
    """Return the steps and the seconds of training that a run has saved; 0: none."""
    folders = checkpoint_folders(run)
    state = _read_state(folders[max(folders)]) if folders else None
    return (0, 0.0) if state is None else (max(folders), state.progress.seconds)


def settings_folder(place: Path) -> Path:
    """Return the folder with the settings and the tokenizer: for a checkpoint, that of its run."""
    checkpoint = _checkpoint_at(place)
    return place if checkpoint is None else checkpoint.parent.parent


def find_model(place: Path) -> ModelFiles:
    """Find the files of a model folder, of a run that is not over, or of one of its checkpoints.

    Of a run that is not over, the best checkpoint so far is taken by the run's own criterion, or
    the newest if none is scored.
    """
    checkpoint = _checkpoint_at(place)
    if checkpoint is not None:
        return _of_checkpoint(checkpoint)
    if not (place / WEIGHTS).is_file():
        return _of_run(place) if (place / PROVENANCE).is_file() else _finished(place)
    reopened_at = _reopened_at(place)
    if reopened_at is None:
        return _finished(place)
    best = _best_of(_trained_checkpoints(place))
    if best is None or best.step <= reopened_at:
        note = f"{place} is not over: weights of its end at step {reopened_at:,}, before it resumed"
        return ModelFiles(place, place / WEIGHTS, note)
    return _chosen(place, best, f"its best so far by {_criterion(place, best)}")


def _finished(folder: Path) -> ModelFiles:
    return ModelFiles(folder, folder / WEIGHTS)


def _checkpoint_at(place: Path) -> Path | None:
    """Return the folder of the checkpoint that a path names; None: it names no checkpoint."""
    whole = Path(os.path.abspath(place))  # noqa: PTH100 - links stay as the user gave them
    name = _NAME.fullmatch(whole.name)
    run = whole.parent.parent
    if name is None or whole.parent.name != CHECKPOINTS or not (run / CONFIG).is_file():
        return None
    parent = place.parent if place.parent.name == CHECKPOINTS else whole.parent
    return parent / checkpoint_name(int(name[1]))


def _of_checkpoint(folder: Path) -> ModelFiles:
    run = folder.parent.parent
    if not (folder / WEIGHTS).is_file():
        steps = ", ".join(f"{step:,}" for step in checkpoint_folders(run)) or "none"
        raise InputError(
            f"there is no checkpoint {folder}: a run keeps its last and its best; of {run} there "
            f"are those of the steps {steps}"
        )
    step = int(folder.name[5:])
    found = _Found(folder, step, _read_state(folder) or CheckpointState())
    scores = "before training" if step == 0 else _scores(found) or "not scored"
    return ModelFiles(run, folder / WEIGHTS, f"{folder}: weights of step {step:,}, {scores}")


def _of_run(run: Path) -> ModelFiles:
    found = _trained_checkpoints(run)
    if not found and (run / CARD).exists():
        raise InputError(
            f"{run} holds the records of a finished run without its weights: restore {WEIGHTS} "
            "from where it was trained"
        )
    if not found:
        raise InputError(
            f"{run} is not over and has no checkpoint with trained weights yet: wait for its first "
            "(run.save_minutes, run.checkpoint_steps), or stop it, which writes one"
        )
    best = _best_of(found)
    if best is None:
        return _chosen(run, found[-1], "its newest; none is the best yet")
    return _chosen(run, best, f"its best so far by {_criterion(run, best)}")


def _chosen(run: Path, chosen: _Found, why: str) -> ModelFiles:
    note = f"{run} is not over: weights of step {chosen.step:,}, {why}"
    return ModelFiles(run, chosen.folder / WEIGHTS, note, is_choice=True)


def _trained_checkpoints(run: Path) -> list[_Found]:
    """Read the checkpoints of a run in the order of their steps, without that of step 0."""
    states = [(at, step, _read_state(at)) for step, at in checkpoint_folders(run).items() if step]
    return [_Found(at, step, state) for at, step, state in states if state is not None]


def _best_of(found: list[_Found]) -> _Found | None:
    """Return the checkpoint that the run holds for its best; None: none is scored."""
    best_loss = found[-1].state.best_loss if found else None
    scored = (one for one in found if one.loss is not None)
    return next((one for one in scored if one.loss == best_loss), None)


def _criterion(run: Path, chosen: _Found) -> str:
    """Name what decides which weights are the best, with its value."""
    name, score = _metric(chosen)
    if name is None or load_config(run / CONFIG).run.choose_by == "loss":
        return f"dev loss ({chosen.loss:.3f})"
    return f"{name} ({score:.2f})"


def _scores(found: _Found) -> str:
    """Describe the scores of a checkpoint; '': it was not scored."""
    if found.loss is None:
        return ""
    name, score = _metric(found)
    return f"dev loss {found.loss:.3f}" + (f", {name} {score:.2f}" if name else "")


def _metric(found: _Found) -> tuple[str | None, float]:
    """Return the name of the task's metric and its score; version 0.1 knew BLEU only."""
    scores = found.state.scores or RecordedScores()
    if scores.metric is not None:
        return scores.metric.name, scores.metric.score
    return (None, 0.0) if scores.bleu is None else ("BLEU", scores.bleu)


def _reopened_at(run: Path) -> int | None:
    """Return the step at which a finished run went on; None: it is over, or no run.

    A run that goes on may be stopped and given yet another budget: that is no other end.
    """
    is_over = (run / CARD).exists() or not (run / CHECKPOINTS).is_dir()
    if is_over or not (run / PROVENANCE).exists():
        return None
    return last_end(read_provenance(run / PROVENANCE))


def last_end(provenance: Mapping[str, Any]) -> int | None:
    """Return the last step at which a run was finished and reopened; None: it never was."""
    changes = provenance.get(BUDGET_CHANGES, [])
    # Records without the mark are of a version that knew one reopening only.
    ends: list[int] = [change["step"] for change in changes if change.get(WAS_FINISHED, True)]
    return ends[-1] if ends else None


def _read_state(checkpoint: Path) -> CheckpointState | None:
    """Read the state of a checkpoint; None: it was removed in the meantime."""
    try:
        return read_state(checkpoint / STATE)
    except InputError:
        if (checkpoint / STATE).exists():
            raise
        return None
