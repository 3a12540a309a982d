"""What the trials of a search have reached, read from their run folders: the only record of it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from transduce.errors import InputError
from transduce.sweeps.plan import SweepRun
from transduce.sweeps.searching.planning import trial_number
from transduce.training.run.events import Event, Finished, Scored, Stepped
from transduce.training.run.folder import JOURNAL, RunFolder
from transduce.training.run.journal import read_journal

By = Literal["loss", "metric"]
TrialState = Literal["computing", "finished", "pruned", "failed"]


@dataclass(frozen=True)
class TrialScore:
    """A score on the development set while a trial trains."""

    step: int
    share: float  # of the trial's budget that was spent by then; 0: it has no budget
    cost: float  # the lower, the better


@dataclass(frozen=True)
class Trial:
    """A trial that has begun."""

    number: int
    values: dict[str, Any]  # of the searched settings
    state: TrialState
    cost: float | None  # of the weights that it ended with; None: it is not finished
    scores: tuple[TrialScore, ...]


def read_trial(run: SweepRun, by: By) -> Trial:
    """Read a trial from its folder."""
    path = run.folder / JOURNAL
    try:
        events = read_journal(path) if path.exists() else []
    except InputError:  # damaged; the report says so
        return Trial(trial_number(run), run.trial, "failed", None, ())
    cost = final_cost(events, by) if RunFolder(run.folder).has_ended() else None
    return Trial(
        trial_number(run), run.trial, _state(run, cost), cost, tuple(dev_scores(events, by))
    )


def _state(run: SweepRun, cost: float | None) -> TrialState:
    if run.pruned_file.exists():
        return "pruned"
    if cost is not None:
        return "finished"
    return "failed" if run.fault_file.exists() else "computing"


def dev_scores(events: Sequence[Event], by: By) -> list[TrialScore]:
    """Return the scores of a journal in order; those that are not known are left out."""
    found, share = [], 0.0
    for event in events:
        if isinstance(event, Stepped):
            share = event.share_done
        elif isinstance(event, Scored) and (cost := cost_of(event, by)) is not None:
            found.append(TrialScore(event.step, share, cost))
    return found


def final_cost(events: Sequence[Event], by: By) -> float | None:
    """Return the cost of the weights at the end; None: it is not known."""
    end = next((event for event in reversed(events) if isinstance(event, Finished)), None)
    return None if end is None else cost_of(end, by)


def cost_of(event: Scored | Finished, by: By) -> float | None:
    """Return a score as a cost, the lower, the better; None: it is not known."""
    if by == "loss":
        value = event.loss
    elif event.score is None:
        return None
    else:
        value = -event.score if event.higher_is_better else event.score
    return value if value is not None and math.isfinite(value) else None


def shown_cost(cost: float, by: By, *, metric: str, higher_is_better: bool) -> str:
    """Write a cost as the score that it stands for: `dev loss 2.3456`, `dev BLEU 12.34`."""
    if by == "loss":
        return f"dev loss {cost:.4f}"
    return f"dev {metric} {-cost if higher_is_better else cost:.2f}"


def folder_of_trials(run: SweepRun) -> Path:
    """Return the folder that holds the folders of all trials."""
    return run.folder.parent.parent
