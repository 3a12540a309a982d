"""A search while it computes: which trials have begun, and the next one."""

from collections.abc import Collection
from typing import Any

from transduce.errors import InputError
from transduce.sweeps.plan import SweepPlan, SweepRun
from transduce.sweeps.searching.planning import (
    TRIAL,
    begun_trials,
    check_search,
    is_allowed,
    trial_name,
    trial_number,
    trial_run,
)
from transduce.sweeps.searching.proposals import check_sampler, propose
from transduce.sweeps.searching.ranges import SweepSearch
from transduce.sweeps.searching.trials import read_trial


class TrialSource:
    """Hands out the trials of a search one by one, each when there is room for it."""

    def __init__(self, plan: SweepPlan, search: SweepSearch, rows: Collection[str]) -> None:
        """`rows` has the names of the trials to compute."""
        self.search = search
        self._plan = plan
        self._begun = {trial_number(run): run for run in begun_trials(plan, search)}
        wanted = sorted(int(found[1]) for row in rows if (found := TRIAL.fullmatch(row)))
        self._to_come = [number for number in wanted if number not in self._begun]

    @property
    def begun(self) -> list[SweepRun]:
        """The trials that have begun, in order."""
        return [self._begun[number] for number in sorted(self._begun)]

    @property
    def to_come(self) -> int:
        """How many trials have not begun."""
        return len(self._to_come)

    def next(self) -> SweepRun | None:
        """Begin the next trial; None: there is none, because all have begun or none is left."""
        if not self._to_come:
            return None
        number = self._to_come.pop(0)
        others = [read_trial(run, self.search.by) for run in self.begun]

        def allowed(values: dict[str, Any]) -> bool:
            return is_allowed(trial_run(self._plan, number, values))

        values = propose(self.search, number, others, is_allowed=allowed)
        if values is None:
            self._to_come = []
            return None
        run = self._begun[number] = trial_run(self._plan, number, values)
        return run


def check_trials(plan: SweepPlan, trials: int | None) -> SweepSearch | None:
    """Return the search of a sweep whose trials are asked for; raise if it cannot work."""
    search = plan.file.search
    if search is None:
        if trials is not None:
            raise InputError("--search: the sweep file has no section 'search' with ranges")
        return None
    if trials is None:
        raise InputError("the sweep file has a section 'search': say how many trials, --search 20")
    check_search(plan, search, trials)
    check_sampler(search)
    return search


def names_of_trials(trials: int) -> list[str]:
    """Return the names of the rows of all trials."""
    return [trial_name(number) for number in range(1, trials + 1)]
