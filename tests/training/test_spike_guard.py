"""A step whose loss is not finite or spikes is skipped, and noise is no spike."""

import math
import statistics

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transduce.training.step.spike_guard import MEAN_STEPS, SPIKE_FACTOR, SPIKE_NATS, SpikeGuard

CPU = torch.device("cpu")
usual = st.floats(0.5, 8.0, width=32)
unfit = st.sampled_from(
    [(math.nan, 1.0), (math.inf, 1.0), (-math.inf, 1.0), (2.0, math.nan), (2.0, math.inf)]
)
steps = st.tuples(st.floats(0, 60, width=32), st.just(1.0)) | unfit


def verdicts(guard: SpikeGuard, seen: list[tuple[float, float]]) -> list[float]:
    return [guard.judge(torch.tensor(loss), torch.tensor(norm)).item() for loss, norm in seen]


def taught(losses: list[float]) -> SpikeGuard:
    guard = SpikeGuard(CPU)
    assert not any(verdicts(guard, [(loss, 1.0) for loss in losses]))
    return guard


@given(before=st.lists(usual, max_size=2 * MEAN_STEPS), step=unfit)
def test_a_loss_or_gradient_that_is_not_finite_is_always_skipped(
    before: list[float], step: tuple[float, float]
) -> None:
    guard = SpikeGuard(CPU)
    verdicts(guard, [(loss, 1.0) for loss in before])
    assert verdicts(guard, [step]) == [1.0]


@given(losses=st.lists(usual, min_size=MEAN_STEPS, max_size=MEAN_STEPS))
def test_a_spike_is_measured_from_the_mean_of_recent_losses(losses: list[float]) -> None:
    limit = SPIKE_FACTOR * statistics.fmean(losses) + SPIKE_NATS
    guard = taught(losses)
    state = guard.state()
    assert verdicts(guard, [(1.001 * limit, 1.0)]) == [1.0]
    assert guard.state() == state
    assert verdicts(guard, [(0.999 * limit, 1.0)]) == [0.0]


@given(losses=st.lists(usual, min_size=1, max_size=MEAN_STEPS))
def test_the_mean_is_exact_while_there_are_few_losses(losses: list[float]) -> None:
    mean, seen = taught(losses).state()
    assert mean == pytest.approx(statistics.fmean(losses), rel=1e-4)
    assert seen == len(losses)


def test_there_is_no_spike_before_enough_steps_are_seen() -> None:
    guard = taught([1.0] * (MEAN_STEPS - 1))
    assert verdicts(guard, [(50.0, 1.0), (50.0, 1.0)]) == [0.0, 1.0]


@settings(max_examples=15)
@given(seed=st.integers(0, 2**31 - 1), start=st.floats(3, 11), end=st.floats(0.01, 3))
def test_the_noise_of_training_is_no_spike(seed: int, start: float, end: float) -> None:
    """A falling loss with noise of a fifth of it, as with small batches."""
    noise = torch.randn(600, generator=torch.Generator().manual_seed(seed)).tolist()
    losses = [end + (start - end) * math.exp(-n / 150) for n in range(600)]
    taught([max(0.0, loss * (1 + 0.2 * error)) for loss, error in zip(losses, noise, strict=True)])


@given(before=st.lists(steps, max_size=150), skipped=unfit, after=st.lists(steps, max_size=30))
def test_a_skipped_step_does_not_change_the_mean(
    before: list[tuple[float, float]],
    skipped: tuple[float, float],
    after: list[tuple[float, float]],
) -> None:
    one, other = SpikeGuard(CPU), SpikeGuard(CPU)
    verdicts(one, before)
    verdicts(other, before)
    verdicts(other, [skipped] * 3)
    assert verdicts(one, after) == verdicts(other, after)
    assert one.state() == other.state()


@given(before=st.lists(steps, max_size=150), after=st.lists(steps, max_size=30))
def test_a_restored_guard_decides_as_before(
    before: list[tuple[float, float]], after: list[tuple[float, float]]
) -> None:
    guard, restored = SpikeGuard(CPU), SpikeGuard(CPU)
    verdicts(guard, before)
    restored.restore(guard.state())
    assert verdicts(guard, after) == verdicts(restored, after)
    assert guard.state() == restored.state()
