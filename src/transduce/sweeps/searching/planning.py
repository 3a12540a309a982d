"""The trials of a search as runs of its sweep, and what is wrong with a search before it starts."""

import re
from collections.abc import Mapping
from typing import Any

from transduce.config.schema import merge
from transduce.errors import ConfigError, InputError, TransduceError
from transduce.models.model_files import PROVENANCE
from transduce.sweeps.file import grid_row
from transduce.sweeps.plan import (
    BUDGETS,
    RUNS,
    SweepPlan,
    SweepRun,
    leaves,
    naming_row,
    settings_tree,
    with_epochs,
)
from transduce.sweeps.searching.ranges import SweepSearch
from transduce.training.run.folder import RunFolder
from transduce.training.run.prepare import check_settings

TRIAL = re.compile(r"trial[ _](\d+)")
_COMBINATIONS = 50
"""How many combinations with an end of a range are tried before it is refused."""


def trial_name(number: int) -> str:
    """Return the name of a trial's row."""
    return f"trial {number}"


def trial_number(run: SweepRun) -> int:
    """Return the number of a trial, from 1."""
    found = TRIAL.fullmatch(run.variation)
    assert found is not None, run.variation
    return int(found[1])


def trial_run(plan: SweepPlan, number: int, values: Mapping[str, Any]) -> SweepRun:
    """Plan a trial: the base with other values of the searched settings."""
    base, seed = plan.runs[0], plan.file.seeds[0]
    folder = plan.folder / RUNS / trial_name(number).replace(" ", "_") / f"seed-{seed}"
    settings = merge(merge(base.settings, settings_tree(values)), {"run": {"seed": seed}})
    return SweepRun(
        trial_name(number), seed, folder, settings, base.preset, grid={}, trial=dict(values)
    )


def is_allowed(run: SweepRun) -> bool:
    """Whether the settings of a trial go together."""
    try:
        check_settings(run.request())
    except TransduceError:
        return False
    return True


def begun_trials(plan: SweepPlan, search: SweepSearch) -> list[SweepRun]:
    """Return the trials that have begun, in order, with the settings that their folders hold."""
    seed = plan.file.seeds[0]
    found = {
        int(name[1]): folder / f"seed-{seed}"
        for folder in (plan.folder / RUNS).glob("trial_*")
        if (name := TRIAL.fullmatch(folder.name))
    }
    return [
        _begun_trial(plan, search, number)
        for number, folder in sorted(found.items())
        if (folder / PROVENANCE).exists()
    ]


def _begun_trial(plan: SweepPlan, search: SweepSearch, number: int) -> SweepRun:
    folder = trial_run(plan, number, {}).folder
    with naming_row(trial_name(number)):
        given = dict(leaves(RunFolder(folder).given()))
        values = {}
        for name in search.ranges:
            current = _current_name(name)
            if current not in given:
                raise ConfigError(
                    f"it has begun without {name}, which search.ranges names now: choose another "
                    f"--out, or remove {folder}"
                )
            values[name] = given[current]
    run = trial_run(plan, number, values)
    if plan.is_in_epochs:
        return with_epochs(run, given["training.epochs"])
    return run


def check_search(plan: SweepPlan, search: SweepSearch, trials: int) -> None:
    """Raise if a search cannot work: names, ranges, rows, and the number of trials."""
    if trials < 1:
        raise InputError(f"--search {trials}: must be 1 or more")
    if trials > search.combinations:
        raise InputError(
            f"--search {trials:,}: the ranges have only {search.combinations:,.0f} combinations"
        )
    for run in plan.runs:
        if TRIAL.fullmatch(run.variation):
            raise ConfigError(f"row {run.variation!r}: trials of a search have such names")
    _check_names(plan, search)
    for name, found in search.ranges.items():
        for value in found.ends:
            _check_value(plan, search, name, value)
    if search.by == "metric" and plan.runs[0].settings.get("run", {}).get("score_sentences") == 0:
        raise ConfigError("search.by=metric needs run.score_sentences above 0")


def _check_names(plan: SweepPlan, search: SweepSearch) -> None:
    """Raise if a searched setting is also a row's, a budget or the seed."""
    searched = {_current_name(name): name for name in search.ranges}
    if len(searched) < len(search.ranges):
        raise ConfigError("search.ranges: a setting is named twice")
    for name in plan.file.grid:
        if _current_name(name) in searched:
            raise ConfigError(f"grid: {name} is also in search.ranges: leave it out of one")
    for row in plan.file.variations:
        for name, _ in leaves(settings_tree(row.set)):
            if name in searched:
                raise ConfigError(
                    f"row {row.row!r}: {name} is also in search.ranges: leave it out of one"
                )
    for name in (*(f"training.{budget}" for budget in BUDGETS), "run.seed"):
        if name in searched and (plan.file.budget is not None or name == "run.seed"):
            given = "seeds" if name == "run.seed" else "budget"
            raise ConfigError(f"search.ranges: {name} is the same for all trials: see {given}")


def _check_value(plan: SweepPlan, search: SweepSearch, name: str, value: Any) -> None:
    """Raise if no trial can have this value: alone with the base, or with others of the search."""
    alone = trial_run(plan, 1, {name: value})
    if is_allowed(alone):
        return
    drawn = (search.draw(number, 0) for number in range(_COMBINATIONS))
    if any(is_allowed(trial_run(plan, 1, values | {name: value})) for values in drawn):
        return
    with naming_row(f"trial with {grid_row({name: value})}"):
        check_settings(alone.request())


def _current_name(name: str) -> str:
    """Return the full name of a setting, which may be given by an older one."""
    [(current, _)] = leaves(settings_tree({name: 0}))
    return current
