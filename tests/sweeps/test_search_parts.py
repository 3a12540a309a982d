"""Ranges, proposals and the pruning rule of a search, without training."""

import math
import random
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sweeps.made_up import make_run, sweep
from transduce.errors import ConfigError, InputError
from transduce.sweeps.plan import SweepPlan
from transduce.sweeps.report import write_report
from transduce.sweeps.searching.planning import trial_run
from transduce.sweeps.searching.proposals import propose
from transduce.sweeps.searching.pruning import pruned_at, record_pruned
from transduce.sweeps.searching.ranges import SettingRange, SweepPruning, SweepSearch
from transduce.sweeps.searching.search import TrialSource, check_trials, names_of_trials
from transduce.sweeps.searching.trials import Trial, TrialScore, TrialState

RATE = {"low": 1e-4, "high": 1e-1, "log": True}
HEADS: dict[str, Any] = {"ranges": {"model.h": [1, 2, 4]}}


def searching(**entries: Any) -> SweepSearch:
    return SweepSearch.model_validate(entries)


def trial(number: int, values: dict[str, Any], cost: float, state: TrialState) -> Trial:
    return Trial(
        number, values, state, cost if state == "finished" else None, (TrialScore(6, 0.5, cost),)
    )


def any_values(_values: dict[str, Any]) -> bool:
    return True


@pytest.mark.parametrize(
    ("found", "values"),
    [
        ({"low": 1, "high": 4}, {1, 2, 3, 4}),
        ({"low": 2, "high": 9, "step": 3}, {2, 5, 8}),
        ({"low": 0.0, "high": 0.3, "step": 0.1}, {0.0, 0.1, 0.2, 0.3}),
        ({"low": 1, "high": 8, "log": True}, set(range(1, 9))),
        ({"choices": ("a", None, True)}, {"a", None, True}),
    ],
)
def test_every_value_of_a_range_is_drawn_and_no_other(
    found: dict[str, Any], values: set[Any]
) -> None:
    span = SettingRange.model_validate(found)
    drawn = {span.value_at(share / 1000) for share in range(1000)}
    assert drawn == values
    assert span.count == len(values)
    assert all(map(span.contains, values))
    assert {*span.ends} <= values


@given(st.floats(0, 1, exclude_max=True))
def test_each_factor_of_a_logarithmic_range_is_as_likely(share: float) -> None:
    span = SettingRange.model_validate(RATE)
    value = span.value_at(share)
    assert 1e-4 <= value <= 1e-1
    assert value == pytest.approx(1e-4 * 1000**share, rel=1e-3)
    assert span.contains(value)


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ({"ranges": {}}, "search.ranges: name a setting"),
        ({"ranges": {"model.h": []}}, "search.ranges: model.h: the range is empty"),
        ({"ranges": {"model.h": {"low": 4, "high": 4}}}, "model.h: the range is empty: low=4"),
        ({"ranges": {"model.h": {"low": 4}}}, "model.h: give a list of values, or numbers"),
        ({"ranges": {"model.h": {"lo": 4}}}, r"search.ranges.model.h.lo \(did you mean low\?\)"),
        ({"ranges": {"training.eps_ls": {"low": 0, "high": 1, "log": True}}}, "more than 0 where"),
        ({"ranges": {"model.h": [4, 4]}}, "model.h: a value is given twice"),
        ({"ranges": {"model.hh": [1, 2]}}, "row 'trial with hh=1': unknown setting model.hh"),
        ({"ranges": {"model.h": [2, 7]}}, "row 'trial with h=7': model.h=7 does not divide"),
        ({"ranges": {"model.d_ff": [16, 32]}}, "row 'wide': model.d_ff is also in search.ranges"),
        ({"ranges": {"training.eps_ls": [0.0, 0.1]}}, "grid: training.eps_ls is also in search"),
        ({"ranges": {"training.steps": [1, 2]}}, "training.steps is the same for all trials"),
        ({"ranges": {"run.seed": [1, 2]}}, "run.seed is the same for all trials: see seeds"),
        ({"ranges": {"model.vocab_size": [300, 500]}}, "set search.by to metric"),
        (HEADS | {"sampler": "grid"}, "search.sampler='grid': must be 'random' or 'tpe'"),
        (HEADS | {"prune": {"kep": 1}}, r"unknown entry search.prune.kep \(did you mean keep\?\)"),
    ],
)
def test_mistakes_are_named(search: dict[str, Any], message: str, tmp_path: Path) -> None:
    rows = {"variations": [{"name": "wide", "set": {"model": {"d_ff": 64}}}]}
    grid = {"training.eps_ls": [0.0, 0.1]}
    with pytest.raises(ConfigError, match=message):
        check_trials(sweep(tmp_path, search=search, grid=grid, **rows), 2)


def test_more_trials_than_combinations_are_refused(tmp_path: Path) -> None:
    plan = sweep(tmp_path, search=HEADS)
    with pytest.raises(InputError, match="--search 4: the ranges have only 3 combinations"):
        check_trials(plan, 4)
    with pytest.raises(InputError, match="--search 0: must be 1 or more"):
        check_trials(plan, 0)
    with pytest.raises(ConfigError, match="a search trains each trial with one seed"):
        sweep(tmp_path, search=HEADS, seeds=[1, 2])
    named = sweep(tmp_path, search=HEADS, variations=[{"name": "trial 3", "preset": "small"}])
    with pytest.raises(ConfigError, match="row 'trial 3': trials of a search have such names"):
        check_trials(named, 2)


def test_settings_that_do_not_go_together_are_not_tried(tmp_path: Path) -> None:
    ranges = {"model.h": [4, 6], "model.d_model": [64, 96]}
    plan = sweep(tmp_path, search={"ranges": ranges})
    search = check_trials(plan, 4)
    assert search is not None
    source = TrialSource(plan, search, names_of_trials(4))
    found = []
    while run := source.next():
        found.append((run.trial["model.h"], run.trial["model.d_model"]))
    assert sorted(found) == [(4, 64), (4, 96), (6, 96)], "6 heads do not divide 64"
    assert source.to_come == 0


def known_best(search: SweepSearch, count: int) -> list[Trial]:
    """Trials whose cost is the distance of their learning rate to 0.003, in factors of 10."""
    found = []
    for number in range(1, count + 1):
        values = search.draw(number, 0)
        cost = abs(math.log10(values["training.learning_rate"] / 0.003))
        found.append(trial(number, values, cost, "pruned" if number % 4 == 0 else "finished"))
    return found


def test_tpe_proposes_settings_near_the_best() -> None:
    pytest.importorskip("optuna")
    ranges = {"training.learning_rate": RATE, "model.h": [1, 2, 4], "model.n_layers": {"low": 1, "high": 6}}  # fmt: skip  # noqa: E501
    search = searching(ranges=ranges, sampler="tpe", random_trials=5)
    trials = known_best(search, 24)

    def distance(values: dict[str, Any] | None) -> float:
        assert values is not None
        return abs(math.log10(values["training.learning_rate"] / 0.003))

    by_tpe = [
        distance(propose(search, number, trials, is_allowed=any_values)) for number in range(30, 50)
    ]
    by_chance = [distance(search.draw(number, 0)) for number in range(30, 50)]
    assert statistics.mean(by_tpe) < 0.5 * statistics.mean(by_chance)


def test_a_proposal_follows_from_the_trials_alone() -> None:
    """Not from their order, nor from what was proposed before."""
    pytest.importorskip("optuna")
    search = searching(
        ranges={"training.learning_rate": RATE}, sampler="tpe", random_trials=5, seed=3
    )
    trials = known_best(search, 12)
    first = propose(search, 13, trials, is_allowed=any_values)
    propose(search, 14, trials, is_allowed=any_values)
    mixed = random.Random(1).sample(trials, len(trials))  # noqa: S311 - a test repeats itself
    assert propose(search, 13, mixed, is_allowed=any_values) == first
    assert propose(search, 14, trials, is_allowed=any_values) != first
    others = [*trials[:-1], trial(12, trials[-1].values, 0.0, "finished")]
    assert propose(search, 13, others, is_allowed=any_values) != first


def test_random_trials_do_not_depend_on_how_far_others_are() -> None:
    search = searching(ranges={"training.learning_rate": RATE})
    over = known_best(search, 6)
    computing = [trial(one.number, one.values, 1.0, "computing") for one in over]
    found = propose(search, 7, over, is_allowed=any_values)
    assert found == propose(search, 7, computing, is_allowed=any_values) == search.draw(7, 0)


@given(
    st.lists(st.lists(st.floats(0, 9), min_size=4, max_size=4), min_size=0, max_size=8),
    st.lists(st.floats(0, 9), min_size=4, max_size=4),
    st.sampled_from([25.0, 50.0, 75.0]),
    st.integers(1, 4),
)
def test_the_pruning_rule_is_optunas(
    others: list[list[float]], own: list[float], percentile: float, after: int
) -> None:
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    pruner = optuna.pruners.PercentilePruner(
        percentile, n_startup_trials=after, n_warmup_steps=20, interval_steps=1
    )
    study = optuna.create_study(direction="minimize", pruner=pruner)
    for costs in others:
        values = {10 * (n + 1): cost for n, cost in enumerate(costs)}
        study.add_trial(optuna.trial.create_trial(value=costs[-1], intermediate_values=values))
    asked, expected = study.ask(), None
    for n, cost in enumerate(own):
        asked.report(cost, 10 * (n + 1))
        if asked.should_prune():
            expected = 10 * (n + 1)
            break

    def scores(costs: Sequence[float]) -> list[TrialScore]:
        return [TrialScore(10 * (n + 1), (n + 1) / 5, cost) for n, cost in enumerate(costs)]

    rule = SweepPruning(keep=percentile / 100, after_trials=after, after_share=0.4)
    found = pruned_at(scores(own), [scores(costs) for costs in others], rule)
    assert (found[0].step if found else None) == expected


def test_other_steps_are_compared_by_the_share_of_the_budget() -> None:
    rule = SweepPruning(after_trials=1, after_share=0)
    others = [[TrialScore(100, 0.25, 5.0), TrialScore(200, 0.5, 4.0), TrialScore(400, 1.0, 1.0)]]
    assert pruned_at([TrialScore(30, 0.6, 3.9)], others, rule) is None
    assert pruned_at([TrialScore(300, 0.3, 4.9)], others, rule) is None, "whatever the step"
    assert pruned_at([TrialScore(300, 0.3, 5.1)], others, rule) is not None
    assert pruned_at([TrialScore(5, 0.1, 9.0)], others, rule) is None, "none was scored by then"
    assert pruned_at([TrialScore(500, 1.0, 9.0)], others, rule) is None, "it is at its end"


def made_up_trials(folder: Path, by: str, count: int = 3) -> SweepPlan:
    search = {"ranges": {"training.learning_rate": RATE, "model.h": [1, 2, 4]}, "by": by}
    plan = sweep(folder, search=search, test=[])
    values = [{"training.learning_rate": 0.001 * n, "model.h": 2} for n in range(1, count + 1)]
    return plan.with_runs([trial_run(plan, n + 1, found) for n, found in enumerate(values)])


@pytest.mark.parametrize(("by", "order"), [("loss", [2, 3, 1]), ("metric", [3, 2, 1])])
def test_trials_are_listed_by_what_was_searched_for(
    tmp_path: Path, by: str, order: list[int]
) -> None:
    plan = made_up_trials(tmp_path, by, count=5)
    scores = ((1.0, 50.0), (3.0, 10.0), (1.5, 12.0), (2.0, 20.0), (0.5, 60.0))
    for run, (loss, bleu) in zip(plan.runs, scores, strict=False):
        make_run(run, loss=loss, bleu=bleu, finished=run is not plan.runs[4])
    record_pruned(plan.runs[4], "stopped after step 50")
    report = write_report(plan)
    names = [f"trial {number}" for number in order]
    assert [row.name for row in report.results.rows] == ["base", *names, "trial 4", "trial 5"]
    assert [row.runs[0].status for row in report.results.rows][-2:] == ["pruned", "not begun"]
    assert report.files[-1].name == "search.png"
    assert report.files[-1].read_bytes().startswith(b"\x89PNG")
