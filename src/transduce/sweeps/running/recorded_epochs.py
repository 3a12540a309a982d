"""The epochs that a budget means for each row, as an earlier command found them."""

from collections.abc import Sequence

from transduce.errors import TransduceError
from transduce.sweeps.plan import PLAN, SweepPlan, SweepRun, read_plan
from transduce.sweeps.running.existing import is_finished


def recorded_epochs(plan: SweepPlan, runs: Sequence[SweepRun]) -> dict[str, float] | None:
    """Return the epochs of each row, as an earlier command found them; None: prepare the data.

    They are taken only if all runs are finished and are the same as then.
    """
    before = _plan_before(plan)
    if before is None:
        return None
    then = {run.name: run for run in before.runs}
    epochs: dict[str, float] = {}
    for run in runs:
        old = then.get(run.name)
        if old is None or old.preset != run.preset:
            return None
        if plan.is_in_epochs:
            epochs[run.variation] = old.settings["training"]["epochs"]
    recorded = plan.with_epochs(epochs)
    names = {run.name for run in runs}
    same = [run for run in recorded.runs if run.name in names]
    if all(run.settings == then[run.name].settings and is_finished(run) for run in same):
        return epochs
    return None


def epochs_of_others(plan: SweepPlan, runs: Sequence[SweepRun]) -> dict[str, float]:
    """Return the epochs, as an earlier command found them, of the rows that have none of `runs`."""
    before = _plan_before(plan)
    if before is None or not plan.is_in_epochs:
        return {}
    selected = {run.variation for run in runs}
    return {
        run.variation: run.settings["training"]["epochs"]
        for run in before.runs
        if run.variation not in selected
    }


def _plan_before(plan: SweepPlan) -> SweepPlan | None:
    """Return the plan that an earlier command wrote; None: there is none with this budget."""
    if not (plan.folder / PLAN).exists():
        return None
    try:
        before = read_plan(plan.folder)
    except TransduceError:
        return None
    return before if before.file.budget == plan.file.budget else None
