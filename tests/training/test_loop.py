import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from tests.training.runs import config, scaled, setup
from transduce.data.loader import Epoch, Loader
from transduce.errors import InputError, TransduceError
from transduce.models.base import TrainingStates
from transduce.models.transformer.model import Transformer
from transduce.training.loop import fit
from transduce.training.run.events import (
    Event,
    MemoryLowered,
    RolledBack,
    Saved,
    Scored,
    Skipped,
    Started,
    Stepped,
)
from transduce.training.session import Setup

PLAIN = Transformer.training_states


def trained(folder: Path, **changes: dict[str, Any]) -> tuple[Setup, list[Event], str | None]:
    events: list[Event] = []
    run = setup(folder, config(**changes), tell=events.append)
    return run, events, fit(run)


def weights(run: Setup) -> list[Tensor]:
    return [tensor.clone() for tensor in run.model.state_dict().values()]


def same(a: Setup, b: Setup) -> bool:
    return all(torch.equal(x, y) for x, y in zip(weights(a), weights(b), strict=True))


def _step(run: Setup) -> int:
    newest = run.checkpoints.newest()
    return newest.step if newest else 0


def _after(steps: int) -> Callable[[], bool]:
    """Ask to stop after this many steps; the loop asks after each, and while it scores."""
    asked = iter(range(steps - 1))
    return lambda: next(asked, None) is None


def test_it_learns_and_reports_events(tmp_path: Path) -> None:
    _, events, ending = trained(tmp_path, training={"steps": 300})
    assert ending == "300 steps are made"
    assert isinstance(events[0], Started)
    losses = [event.loss for event in events if isinstance(event, Scored)]
    assert len(losses) == 30
    assert losses[-1] < 0.8 * losses[0]
    stepped = [event.step for event in events if isinstance(event, Stepped)]
    assert stepped == list(range(10, 301, 10))
    for event in events:
        json.dumps(asdict(event), allow_nan=False)


def test_a_slow_first_step_does_not_make_the_learning_rate_jump(tmp_path: Path) -> None:
    """On a GPU it compiles, which may take a large part of a budget in minutes."""
    pauses = iter([1.0])

    def slow_at_first(*given: Any) -> TrainingStates:
        time.sleep(next(pauses, 0.0))
        return PLAIN(*given)

    budget = {"steps": 10**6, "minutes": 0.5, "schedule": "linear"}
    settings = config(training=budget | {"warmup_steps": 1000, "learning_rate": 1.0})
    events: list[Event] = []
    run = replace(setup(tmp_path, settings, tell=events.append), stopped=_after(12))
    with patch.object(Transformer, "training_states", slow_at_first):
        fit(run)
    first = next(event for event in events if isinstance(event, Stepped))
    assert first.learning_rate <= 4 * first.step / 1000


def test_only_the_first_epoch_waits_for_its_plan(tmp_path: Path) -> None:
    prepare, planned = Loader.epoch, []

    def noted(self: Loader, epoch: int) -> Epoch:
        planned.append((epoch, current_thread() is main_thread()))
        return prepare(self, epoch)

    run = setup(tmp_path, config(training={"steps": 10**6, "epochs": 2.5}))
    with patch.object(Loader, "epoch", noted):
        assert fit(run) == "2.5 epochs are done"
    assert planned[:3] == [(0, True), (1, False), (2, False)]
    assert {epoch for epoch, is_main in planned if is_main} == {0}


@pytest.mark.parametrize(
    ("budget", "ending"),
    [
        ({"steps": 7}, "7 steps are made"),
        ({"epochs": 1.5}, "1.5 epochs are done"),
        ({"minutes": 0.01}, "0.01 minutes are over"),
        ({"patience": 2, "learning_rate": 1e-12}, "2 scorings in a row"),
    ],
)
def test_each_budget_ends_a_run(budget: dict[str, object], ending: str, tmp_path: Path) -> None:
    run, events, reason = trained(tmp_path, training={"steps": 10**6} | budget)
    assert reason is not None
    assert ending in reason
    assert [event for event in events if isinstance(event, Scored)], "the last step is scored"
    assert fit(setup(tmp_path, run.config)) == reason, "a finished run stays finished"


@pytest.mark.exhaustive(after=1)
@pytest.mark.parametrize("stops", [[3], [10], [13, 14, 27]])
def test_stopped_and_resumed_is_the_same_run(stops: list[int], tmp_path: Path) -> None:
    changes = {"model": {"p_drop": 0.2}, "run": {"checkpoint_steps": 10, "ema_decay": 0.9}}
    whole, _, ending = trained(tmp_path / "whole", **changes)
    for stop in stops:
        run = setup(tmp_path / "parts", config(**changes))
        assert fit(replace(run, stopped=_after(stop - _step(run)))) is None
        assert stop - 1 <= _step(run) <= stop
    last = setup(tmp_path / "parts", config(**changes))
    assert fit(last) == ending
    assert same(whole, last)
    for a, b in zip(whole.checkpoints.scored(), last.checkpoints.scored(), strict=True):
        assert (a.step, a.scores) == (b.step, b.scores)
        for first, second in ((a.weights(), b.weights()), (a.moving_average(), b.moving_average())):
            assert first is not None
            assert second is not None
            assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("packed", [True, False])
def test_an_epoch_that_was_begun_keeps_its_batches_on_another_machine(
    packed: bool, tmp_path: Path
) -> None:
    """One machine lays sentences end to end, another pads: that must not lose the place."""

    def made(folder: Path, *, packed: bool, stop: int, epochs: float) -> Setup:
        run = setup(folder, config(training={"epochs": epochs}))
        loader = replace(run.loader, packed=packed)
        run = replace(run, loader=loader, stopped=_after(stop - _step(run)))
        fit(run)
        return run

    whole = made(tmp_path / "whole", packed=packed, stop=99, epochs=1)
    made(tmp_path / "parts", packed=packed, stop=5, epochs=1)
    moved = made(tmp_path / "parts", packed=not packed, stop=99, epochs=1)
    assert same(whole, moved)
    on = made(tmp_path / "parts", packed=not packed, stop=99, epochs=1.5)
    before, after = (run.checkpoints.newest() for run in (whole, on))
    assert before is not None
    assert after is not None
    assert before.progress.packed == packed
    assert after.progress.packed != packed, "the next epoch has the layout of the machine"


def test_planted_nan_is_skipped_counted_and_named(tmp_path: Path) -> None:
    calls = iter(range(10**6))

    def poisoned(model: Transformer, src: Tensor, tgt_in: Tensor, layout: None) -> TrainingStates:
        bad = model.training and next(calls) in (12, 14)
        return scaled(PLAIN(model, src, tgt_in, layout), math.nan if bad else 1.0)

    with patch.object(Transformer, "training_states", poisoned):
        run, events, ending = trained(tmp_path)
    assert ending == "40 steps are made"
    [skipped] = [event for event in events if isinstance(event, Skipped)]
    assert skipped.count == 2
    assert skipped.step == 20
    assert "epoch 1 batch 13; epoch 1 batch 15" in skipped.batches
    newest = run.checkpoints.newest()
    assert newest is not None
    assert newest.progress.skipped == 2
    assert all(tensor.isfinite().all() for tensor in weights(run))


def test_many_skips_in_a_row_roll_back_and_continue_with_other_data(
    tmp_path: Path,
) -> None:
    """Weights that a finite but wild step has ruined make every later loss spike."""
    calls = iter(range(10**6))
    spoilt: list[Tensor] = []

    def spoiling(model: Transformer, src: Tensor, tgt_in: Tensor, layout: None) -> TrainingStates:
        call = next(calls) if model.training else None
        if call == 22:
            spoilt.extend(tensor.clone() for tensor in model.state_dict().values())
            with torch.no_grad():
                model.projection.fill_(math.nan)
        return PLAIN(model, src, tgt_in, layout)

    with patch.object(Transformer, "training_states", spoiling):
        run, events, ending = trained(tmp_path)
    assert spoilt
    assert ending == "40 steps are made"
    [back] = [event for event in events if isinstance(event, RolledBack)]
    assert (back.step, back.to) == (30, 20), "the checkpoint of step 30 would have been spoilt"
    assert back.batches.startswith("epoch 2 batch 3;")
    assert all(tensor.isfinite().all() for tensor in weights(run))
    assert run.checkpoints.scored()[-1].step == 40


def test_a_run_that_keeps_diverging_gives_up_and_names_the_batch(tmp_path: Path) -> None:
    def poisoned(model: Transformer, src: Tensor, tgt_in: Tensor, layout: None) -> TrainingStates:
        return scaled(PLAIN(model, src, tgt_in, layout), math.nan if model.training else 1.0)

    with (
        patch.object(Transformer, "training_states", poisoned),
        pytest.raises(TransduceError, match=r"epoch \d+ batch \d+.*learning_rate"),
    ):
        trained(tmp_path, run={"checkpoint_steps": 1000}, training={"steps": 1000})


def test_a_lowered_memory_limit_is_reported_and_kept(tmp_path: Path) -> None:
    def limited(model: Transformer, src: Tensor, tgt_in: Tensor, layout: None) -> TrainingStates:
        if model.training and max(src.numel(), tgt_in.numel()) > 40:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return PLAIN(model, src, tgt_in, layout)

    plain, _, _ = trained(tmp_path / "plain")
    with patch.object(Transformer, "training_states", limited):
        run, events, _ = trained(tmp_path / "limited")
    lowered = [event for event in events if isinstance(event, MemoryLowered)]
    assert lowered
    newest = run.checkpoints.newest()
    assert newest is not None
    assert newest.progress.max_tokens == lowered[-1].tokens <= 40
    for a, b in zip(weights(run), weights(plain), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_a_failing_loader_ends_the_run(tmp_path: Path) -> None:
    run = setup(tmp_path, config())
    broken = replace(
        run.loader.store, tgt=replace(run.loader.store.tgt, ids=run.loader.store.tgt.ids[:50])
    )
    with pytest.raises((IndexError, ValueError)):
        fit(replace(run, loader=replace(run.loader, store=broken)))


def test_no_pair_to_train_on_is_an_error_not_a_loop(tmp_path: Path) -> None:
    run = setup(tmp_path, config())
    with pytest.raises(InputError, match="no sentence pair to train on"):
        fit(replace(run, loader=replace(run.loader, max_length=1)))


def test_checkpoints_are_reported_when_they_are_complete(tmp_path: Path) -> None:
    _, events, _ = trained(tmp_path)
    saved = [event.step for event in events if isinstance(event, Saved)]
    assert saved == [0, 10, 20, 30, 40]


def test_a_dev_loss_of_nan_is_the_worst(tmp_path: Path) -> None:
    scorings = iter(range(10**6))

    def poisoned(model: Transformer, src: Tensor, tgt_in: Tensor, layout: None) -> TrainingStates:
        bad = not model.training and next(scorings) < 3
        return scaled(PLAIN(model, src, tgt_in, layout), math.nan if bad else 1.0)

    with patch.object(Transformer, "training_states", poisoned):
        run, events, _ = trained(tmp_path)
    best = [event.step for event in events if isinstance(event, Scored) and event.best]
    assert best
    assert best[0] > 10
    newest = run.checkpoints.newest()
    assert newest is not None
    assert newest.progress.best is not None
    assert math.isfinite(newest.progress.best.loss)


def test_a_last_step_that_is_skipped_loses_nothing_of_those_before(tmp_path: Path) -> None:
    calls = iter(range(10**6))

    def poisoned(model: Transformer, src: Tensor, tgt_in: Tensor, layout: None) -> TrainingStates:
        bad = model.training and next(calls) == 36
        return scaled(PLAIN(model, src, tgt_in, layout), math.nan if bad else 1.0)

    with patch.object(Transformer, "training_states", poisoned):
        run, _, ending = trained(tmp_path, training={"steps": 37})
    assert ending == "37 steps are made"
    assert run.checkpoints.scored()[-1].step == 37
