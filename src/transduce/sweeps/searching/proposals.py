"""Which settings the next trial of a search tries.

A proposal follows from the seed of the search, the trial's number and what other trials have
reached, and from nothing else. So a search that is resumed proposes what it would have proposed
without the interruption, as long as the same trials were over by then.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from transduce.errors import InputError, how_to_install
from transduce.sweeps.searching.ranges import SettingRange, SweepSearch
from transduce.sweeps.searching.trials import Trial

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

MAX_DRAWS = 100
"""How often settings are drawn again that were tried before or do not go together."""

Values = dict[str, Any]


def check_sampler(search: SweepSearch) -> None:
    """Raise if the sampler is not installed."""
    if search.sampler == "tpe" and find_spec("optuna") is None:
        raise InputError(f"search.sampler=tpe: Optuna is not installed: {how_to_install('search')}")


def propose(
    search: SweepSearch,
    number: int,
    trials: Sequence[Trial],
    *,
    is_allowed: Callable[[Values], bool],
) -> Values | None:
    """Return the settings of a trial; None: no others were found that are new and go together.

    `trials` are the others that have begun.
    """
    tried = [trial.values for trial in trials]
    over = [trial for trial in trials if trial.state in ("finished", "pruned")]
    by_chance = search.sampler == "random" or len(over) < search.random_trials
    for attempt in range(MAX_DRAWS):
        if by_chance:
            values = search.draw(number, attempt)
        else:
            values = _near_the_best(search, number, attempt, trials)
        if values not in tried and is_allowed(values):
            return values
    return None


def _near_the_best(
    search: SweepSearch, number: int, attempt: int, trials: Sequence[Trial]
) -> Values:
    """Ask Optuna's tree-structured Parzen estimator, which sees a study made of the trials."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    [seed] = np.random.SeedSequence([search.seed, number, attempt]).generate_state(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(
            seed=int(seed), n_startup_trials=0, multivariate=True, constant_liar=True
        )
    study = optuna.create_study(direction="minimize", sampler=sampler)
    space = {name: _distribution(found) for name, found in search.ranges.items()}
    for trial in sorted(trials, key=lambda trial: trial.number):
        # Ranges may have been narrowed since.
        if all(found.contains(trial.values[name]) for name, found in search.ranges.items()):
            study.add_trial(_frozen(trial, search, space))
    asked = study.ask(space).params
    return {name: _value(found, asked[name]) for name, found in search.ranges.items()}


def _distribution(found: SettingRange) -> "BaseDistribution":
    from optuna.distributions import (
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    if found.choices is not None:  # by their places: a value may be a list
        return CategoricalDistribution(range(len(found.choices)))
    low, high = found.ends
    if found.is_whole:
        return IntDistribution(low, high, log=found.log, step=found.step or 1)
    return FloatDistribution(low, high, log=found.log, step=found.step)


def _frozen(
    trial: Trial, search: SweepSearch, space: "dict[str, BaseDistribution]"
) -> "FrozenTrial":
    """Return a trial as Optuna keeps it; one that failed tells nothing about its settings."""
    from optuna.trial import TrialState, create_trial

    states = {
        "computing": TrialState.RUNNING,
        "finished": TrialState.COMPLETE,
        "pruned": TrialState.PRUNED,
        "failed": TrialState.FAIL,
    }
    return create_trial(
        state=states[trial.state],
        value=trial.cost if trial.state == "finished" else None,
        params={name: _param(found, trial.values[name]) for name, found in search.ranges.items()},
        distributions=space,
        intermediate_values={score.step: score.cost for score in trial.scores},
    )


def _param(found: SettingRange, value: Any) -> Any:
    return value if found.choices is None else found.choices.index(value)


def _value(found: SettingRange, param: Any) -> Any:
    if found.choices is not None:
        return found.choices[param]
    assert math.isfinite(param)
    return found.rounded(param)
