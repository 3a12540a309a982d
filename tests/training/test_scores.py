"""One criterion decides which weights are the best: for marks, for what is kept, for patience."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training.runs import config, setup
from transduce.models.base import Seq2Seq
from transduce.tasks.base import MetricScore
from transduce.training.loop import fit
from transduce.training.run.events import Event, Scored, Warned
from transduce.training.run.scores import Criterion, Scores
from transduce.training.session import Setup


def rated(score: float | None, *, loss: float = 1.0, higher_is_better: bool = False) -> Scores:
    metric = MetricScore("WER", score, "", higher_is_better) if score is not None else None
    return Scores(loss, metric)


BY_LOSS, BY_METRIC = Criterion(), Criterion(by_metric=True)


def test_the_loss_or_the_metric_decides_which_is_better() -> None:
    old, new = rated(20.0, loss=2.0), rated(30.0, loss=1.0)
    assert BY_LOSS.is_better(new, old)
    assert not BY_METRIC.is_better(new, old), "a higher error rate is worse"
    higher = [replace_direction(scores) for scores in (new, old)]
    assert BY_METRIC.is_better(*higher)


def replace_direction(scores: Scores) -> Scores:
    assert scores.metric is not None
    return replace(scores, metric=replace(scores.metric, higher_is_better=True))


@pytest.mark.parametrize("criterion", [BY_LOSS, BY_METRIC])
def test_an_equal_score_is_not_better(criterion: Criterion) -> None:
    assert not criterion.is_better(rated(20.0), rated(20.0))
    assert criterion.is_better(rated(20.0), None)


def test_between_equal_scores_the_loss_decides() -> None:
    at_start, later = rated(0.0, loss=5.0), rated(0.0, loss=4.0)
    assert BY_METRIC.is_better(later, at_start), "a BLEU of 0 at the start says nothing"
    assert not BY_METRIC.is_better(at_start, later)
    assert not BY_METRIC.is_better(rated(0.0, loss=math.nan), later)


@given(losses=st.lists(st.floats(allow_nan=True), min_size=1))
def test_without_a_metric_the_loss_decides(losses: list[float]) -> None:
    found = [Scores(loss) for loss in losses]
    assert [BY_METRIC.rank(s) for s in found] == [BY_LOSS.rank(s) for s in found]
    assert {BY_METRIC.best_by(scores) for scores in found} == {"loss"}


def test_scores_without_a_metric_come_after_those_with_one() -> None:
    with_metric = [rated(10.0, loss=9.0), rated(20.0, loss=8.0)]
    without = [rated(None, loss=1.0), rated(None, loss=2.0)]
    assert sorted([*without, *with_metric], key=BY_METRIC.rank) == [*with_metric, *without]


@pytest.mark.parametrize("criterion", [BY_LOSS, BY_METRIC])
@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_what_is_not_finite_is_never_the_best(criterion: Criterion, odd: float) -> None:
    assert not criterion.is_better(rated(odd, loss=odd), None)
    assert criterion.is_better(rated(90.0, loss=90.0), rated(odd, loss=odd))


def test_it_names_what_it_goes_by() -> None:
    assert BY_LOSS.name(rated(1.0)) == "dev loss"
    assert BY_METRIC.name(rated(1.0)) == "dev WER"
    assert BY_METRIC.name(rated(None)) == BY_METRIC.name(None) == "dev loss"


def with_rates(
    folder: Path,
    rates: Sequence[float],
    tell: Callable[[Event], None],
    *,
    done: int = 0,
    patience: int | None = None,
) -> Setup:
    """A run that is judged by an error rate with these values, the last of them ever after."""
    settings = config(
        training={"patience": patience, "steps": 10 * len(rates)},
        run={"choose_by": "metric", "average": 1},
    )
    run = setup(folder, settings, tell=tell)
    values = iter(rates[done:])

    def evaluate(_model: Seq2Seq) -> MetricScore:
        return MetricScore("WER", next(values, rates[-1]), "toy", higher_is_better=False)

    checkpoints = replace(run.checkpoints, criterion=BY_METRIC)
    return replace(run, checkpoints=checkpoints, evaluate=evaluate)


def marked(events: list[Event]) -> list[int]:
    return [event.step for event in events if isinstance(event, Scored) and event.best]


def test_the_lowest_error_rate_is_marked_and_kept(tmp_path: Path) -> None:
    events: list[Event] = []
    run = with_rates(tmp_path, [50.0, 30.0, 40.0, 35.0], events.append)
    assert fit(run) == "40 steps are made"
    assert marked(events) == [10, 20]
    scored = [event for event in events if isinstance(event, Scored)]
    assert [event.loss for event in scored] == sorted((e.loss for e in scored), reverse=True)
    assert {(e.metric, e.best_by, e.higher_is_better) for e in scored} == {("WER", "metric", False)}
    assert [found.step for found in run.checkpoints.all()] == [
        20,
        30,
        40,
    ]  # best, and two to resume
    assert [found.step for found in run.checkpoints.best_first()] == [20, 40, 30]


def test_patience_goes_by_the_error_rate_over_a_resume_too(tmp_path: Path) -> None:
    rates = [50.0, 30.0, 40.0, 35.0, 30.5, 20.0]
    reason = "3 scorings in a row have not improved the dev WER"
    events: list[Event] = []
    whole = with_rates(tmp_path / "whole", rates, events.append, patience=3)
    assert fit(whole) == reason
    assert max(event.step for event in events) == 50
    seen: list[Event] = []
    first = with_rates(tmp_path / "parts", rates, seen.append, patience=3)
    assert fit(replace(first, stopped=lambda: bool(marked(seen)[1:]))) is None
    done = len([event for event in seen if isinstance(event, Scored)])
    assert done == 2
    last = with_rates(tmp_path / "parts", rates, seen.append, done=done, patience=3)
    assert fit(last) == reason
    assert marked(seen) == marked(events) == [10, 20]
    assert fit(with_rates(tmp_path / "parts", rates, seen.append, patience=3)) == reason


def test_without_translations_the_loss_decides_and_one_line_says_so(tmp_path: Path) -> None:
    events: list[Event] = []
    settings = config(run={"choose_by": "metric", "score_sentences": 0})
    run = setup(tmp_path, settings, tell=events.append)
    run = replace(run, checkpoints=replace(run.checkpoints, criterion=BY_METRIC))
    fit(run)
    [warned] = [event for event in events if isinstance(event, Warned)]
    assert "run.score_sentences=0: until the end the dev loss decides" in warned.message
    assert marked(events) == [10, 20, 30, 40]
    assert {event.best_by for event in events if isinstance(event, Scored)} == {"loss"}


def test_a_run_that_goes_by_the_loss_warns_of_nothing(tmp_path: Path) -> None:
    events: list[Event] = []
    fit(setup(tmp_path, config(run={"score_sentences": 0}), tell=events.append))
    assert not [event for event in events if isinstance(event, Warned)]
