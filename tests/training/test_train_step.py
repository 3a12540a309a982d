import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cross_entropy

from tests.training.runs import config, scaled, setup
from transduce.data.batch import Batch
from transduce.data.loader import Loader, StepBatches
from transduce.errors import TransduceError
from transduce.models.base import Seq2Seq, TrainingStates
from transduce.models.build import build_model
from transduce.models.transformer.model import Transformer
from transduce.text.special_ids import PAD_ID
from transduce.training.distributed import Processes
from transduce.training.step.machine import Machine
from transduce.training.step.train_step import TrainStep, dev_loss

CPU = Machine(torch.device("cpu"))
RATE = 1e-3


def gradient(model: Seq2Seq) -> Tensor:
    gradients = [parameter.grad for parameter in model.parameters()]
    return torch.cat([g.flatten() for g in gradients if g is not None])


def after_one_step(loader: Loader, **changes: dict[str, float]) -> tuple[TrainStep, float, Tensor]:
    settings = config(**changes)
    made = TrainStep(build_model(settings.model), settings, CPU)
    batches = next(loader.steps(0))
    step = made(batches, number=1, rate=RATE, processes=Processes())
    return made, step.loss.item(), gradient(made.model)


def relative(a: Tensor, b: Tensor) -> float:
    return float((a - b).norm() / b.norm())


@given(pieces=st.integers(2, 6), seed=st.integers(0, 9))
def test_accumulation_is_one_large_batch(pieces: int, seed: int) -> None:
    """The same sentences in one batch, and split over several of different lengths."""
    small = Loader(setup(Path(), config()).loader.store, max_tokens=30, seed=seed, per_step=pieces)
    plan = small.plan(0)
    together = plan.sentences[: plan.starts[pieces]]
    whole = next(small.steps(0))
    batch = Batch.padded(small.store, together)
    one = replace(whole, batches=[batch])
    results = []
    for batches in (whole, one):
        settings = config()
        made = TrainStep(build_model(settings.model), settings, CPU)
        loss = made(batches, number=1, rate=RATE, processes=Processes()).loss
        results.append((loss.item(), gradient(made.model)))
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-5)
    assert relative(results[0][1], results[1][1]) < 1e-5


@given(seed=st.integers(0, 9), max_tokens=st.sampled_from([None, 20]))
def test_packed_rows_give_the_gradient_of_padded_batches(seed: int, max_tokens: int | None) -> None:
    """The same sentences padded, and packed in a row that is whole or split."""
    rows = Loader(setup(Path(), config()).loader.store, max_tokens=128, seed=seed, packed=True)
    in_row = next(rows.steps(0))
    padded = replace(in_row, batches=[Batch.padded(rows.store, rows.plan(0).batch(0))])
    results = []
    for batches in (in_row, padded):
        settings = config()
        made = TrainStep(build_model(settings.model), settings, CPU)
        made.max_tokens = max_tokens
        loss = made(batches, number=1, rate=RATE, processes=Processes()).loss
        results.append((loss.item(), gradient(made.model)))
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-5)
    assert relative(results[0][1], results[1][1]) < 1e-5


def test_the_gradient_is_that_of_the_mean_smoothed_loss() -> None:
    loader = setup(Path(), config()).loader
    made, loss, found = after_one_step(loader)
    model = build_model(config().model)
    [batch] = next(loader.steps(0)).batches
    logits = model(batch.src, batch.tgt_in)
    expected = cross_entropy(
        logits.flatten(0, 1), batch.tgt_out.flatten(), ignore_index=PAD_ID, label_smoothing=0.1
    )
    torch.autograd.backward(expected)
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    assert relative(found, gradient(model)) < 1e-5
    assert made.max_tokens is None


def test_a_step_is_adams() -> None:
    settings = config()
    loader = setup(Path(), settings).loader
    made = TrainStep(build_model(settings.model), settings, CPU)
    model = build_model(settings.model)
    adam = torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.98), eps=1e-9)
    for number, batches in enumerate(loader.steps(0), start=1):
        made(batches, number=number, rate=RATE, processes=Processes())
        [batch] = batches.batches
        loss = cross_entropy(
            model(batch.src, batch.tgt_in).flatten(0, 1),
            batch.tgt_out.flatten(),
            ignore_index=PAD_ID,
            label_smoothing=0.1,
        )
        adam.zero_grad()
        torch.autograd.backward(loss)
        adam.step()
    for ours, theirs in zip(made.model.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


@contextmanager
def memory_for(tokens: int) -> Iterator[list[int]]:
    """Have a forward pass fail if its batch is too large, perhaps after smaller ones succeeded."""
    seen = []

    def limited(model: Transformer, src: Tensor, tgt_in: Tensor, layout: None) -> TrainingStates:
        seen.append(max(src.numel(), tgt_in.numel()))
        if seen[-1] > tokens:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return TrainingStates(model.decode_states(model.encode(src, layout), tgt_in, layout))

    with patch.object(Transformer, "training_states", limited):
        yield seen


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("limit", [45, 20, 10])
def test_out_of_memory_the_batch_is_split_and_the_gradient_unchanged(
    limit: int, packed: bool
) -> None:
    loader = replace(setup(Path(), config()).loader, per_step=3, packed=packed)
    _, loss, expected = after_one_step(loader)
    with memory_for(limit) as seen:
        made, split_loss, found = after_one_step(loader)
        assert split_loss == pytest.approx(loss, rel=1e-5)
        assert relative(found, expected) < 1e-5
        assert made.max_tokens is not None
        assert made.max_tokens <= limit
        before = len(seen)
        made(next(loader.steps(1)), number=2, rate=RATE, processes=Processes())
        assert max(seen[before:]) <= limit, "the limit stays lowered"


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("limit", [1, 5, 8])
def test_a_sentence_that_does_not_fit_into_memory_is_an_error(limit: int, packed: bool) -> None:
    """Even if most of the other sentences would fit."""
    loader = replace(setup(Path(), config()).loader, per_step=20, packed=packed)
    with memory_for(limit), pytest.raises(TransduceError, match="one sentence pair of 9 tokens"):
        after_one_step(loader)


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_a_step_that_is_not_finite_changes_nothing(poison: float) -> None:
    settings = config()
    loader = setup(Path(), settings).loader
    made = TrainStep(build_model(settings.model), settings, CPU)
    steps = loader.steps(0)
    made(next(steps), number=1, rate=RATE, processes=Processes())
    before = {name: tensor.clone() for name, tensor in made.model.state_dict().items()}
    plain = Transformer.training_states

    def poisoned(model: Transformer, src: Tensor, tgt_in: Tensor, layout: None) -> TrainingStates:
        return scaled(plain(model, src, tgt_in, layout), poison)

    with patch.object(Transformer, "training_states", poisoned):
        step = made(next(steps), number=2, rate=RATE, processes=Processes())
    assert step.skipped.item() == 1
    assert all(torch.equal(before[name], now) for name, now in made.model.state_dict().items())
    step = made(next(steps), number=3, rate=RATE, processes=Processes())
    assert step.skipped.item() == 0
    assert not torch.equal(before["embedding.weight"], made.model.state_dict()["embedding.weight"])


def test_dropout_depends_only_on_the_seed_and_the_step() -> None:
    settings = config(model={"p_drop": 0.3})
    loader = setup(Path(), settings).loader

    def loss(batches: StepBatches, number: int, before: Callable[[], object]) -> float:
        made = TrainStep(build_model(settings.model), settings, CPU)
        before()
        return made(batches, number=number, rate=RATE, processes=Processes()).loss.item()

    batches = next(loader.steps(0))
    first = loss(batches, 7, lambda: torch.manual_seed(1))
    assert loss(batches, 7, lambda: torch.rand(100)) == first
    assert loss(batches, 8, lambda: torch.manual_seed(1)) != first


@dataclass(frozen=True)
class Alone(Processes):
    """One of several processes, of which the others have nothing to add."""

    def barrier(self) -> None:
        """Wait for nobody."""

    def sum(self, tensor: Tensor) -> None:
        """Leave it as it is."""


@pytest.mark.parametrize("world", [1, 2])
def test_every_part_of_a_step_draws_another_dropout(world: int) -> None:
    """The same sentences, several times in one step, in one process and in two."""
    settings = config(model={"p_drop": 0.3})
    whole = next(setup(Path(), settings).loader.steps(0))
    batches = replace(whole, batches=whole.batches[:1] * 3)
    states: list[Tensor] = []

    def recorded(model: Transformer, *tensors: Any) -> TrainingStates:
        found = training_states(model, *tensors)
        states.append(found.states.detach())
        return found

    training_states = Transformer.training_states
    with patch.object(Transformer, "training_states", recorded):
        for rank in range(world):
            made = TrainStep(build_model(settings.model), settings, CPU)
            made(batches, number=7, rate=RATE, processes=Alone(rank=rank, world=world))
    assert len(states) == 3 * world
    for one, other in combinations(states, 2):
        assert not torch.equal(one, other)


def test_dev_loss_is_the_mean_over_tokens_without_smoothing_or_dropout() -> None:
    settings = config(model={"p_drop": 0.5})
    run = setup(Path(), settings)
    found = dev_loss(run.model, run.dev_batches, run.machine, run.processes)
    model, total, tokens = build_model(settings.model, seed=1).eval(), 0.0, 0
    for batch in run.dev_batches:
        logits = model(batch.src, batch.tgt_in).flatten(0, 1)
        total += cross_entropy(
            logits, batch.tgt_out.flatten(), ignore_index=PAD_ID, reduction="sum"
        ).item()
        tokens += batch.tgt_tokens
    assert found == pytest.approx(total / tokens, rel=1e-5)
