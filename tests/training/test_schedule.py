"""The learning rate is the paper's, and the share of the budget that is spent never falls."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.config.schema import TrainingConfig
from transduce.training.step.schedule import Spent, learning_rate, share_spent

widths = st.integers(1, 4096)
warmups = st.integers(1, 10**6)
steps = st.integers(1, 10**8)
shares = st.floats(0, 1)
rates = st.floats(1e-8, 1e3)


def after(share: float) -> Spent:
    """This share of the ten minutes in `config_of`."""
    return Spent(0, 0.0, 600 * share)


def config_of(**settings: Any) -> TrainingConfig:
    return TrainingConfig(minutes=10, steps=10**12, **settings)


@given(d_model=widths, warmup=warmups, step=steps, share=shares)
def test_the_paper_s_formula(d_model: int, warmup: int, step: int, share: float) -> None:
    found = learning_rate(config_of(warmup_steps=warmup), d_model, step, after(share))
    assert found == pytest.approx(d_model**-0.5 * min(step**-0.5, step * warmup**-1.5), rel=1e-12)


@given(d_model=widths, warmup=warmups, step=steps)
def test_it_is_highest_at_the_end_of_the_warmup(d_model: int, warmup: int, step: int) -> None:
    config = config_of(warmup_steps=warmup)
    peak = learning_rate(config, d_model, warmup, after(0))
    assert peak == pytest.approx((d_model * warmup) ** -0.5, rel=1e-12)
    assert learning_rate(config, d_model, step, after(0)) <= peak


@given(d_model=widths, warmup=warmups, step=steps, share=shares, rate=rates)
@pytest.mark.parametrize("schedule", ["paper", "linear"])
def test_a_given_rate_is_the_peak_and_scales_the_schedule(
    schedule: Any, d_model: int, warmup: int, step: int, share: float, rate: float
) -> None:
    plain = config_of(schedule=schedule, warmup_steps=warmup)
    scaled = plain.model_copy(update={"learning_rate": rate})
    peak = (d_model * warmup) ** -0.5
    assert learning_rate(scaled, d_model, step, after(share)) == pytest.approx(
        learning_rate(plain, d_model, step, after(share)) * rate / peak, rel=1e-9
    )


@given(warmup=warmups, step=steps, share=shares, rate=rates)
def test_the_linear_one_falls_to_0_at_the_end_of_the_budget(
    warmup: int, step: int, share: float, rate: float
) -> None:
    config = config_of(schedule="linear", warmup_steps=warmup, learning_rate=rate)
    assert learning_rate(config, 512, step, after(1.0)) == 0
    assert 0 <= learning_rate(config, 512, step, after(share)) <= rate * (1 - share) * (1 + 1e-9)
    if step >= warmup:
        assert learning_rate(config, 512, step, after(share)) == pytest.approx(
            rate * (1 - share), rel=1e-9, abs=1e-300
        )


@given(budget=st.integers(10, 5000), warmup=st.integers(1, 10**6))
def test_the_linear_one_rises_as_asked_but_over_half_of_the_budget_at_most(
    budget: int, warmup: int
) -> None:
    config = TrainingConfig(schedule="linear", warmup_steps=warmup, learning_rate=1.0, steps=budget)
    spent = [Spent(step, 0.0, 0.0) for step in range(budget)]
    run = [learning_rate(config, 512, one.steps + 1, one) for one in spent]
    rises_for = min(warmup, budget / 2)
    assert run.index(max(run)) <= rises_for + 1
    for step, rate in enumerate(run, start=1):
        # A step counts as spent after it, so the share of the budget lags one step behind.
        assert rate <= step / rises_for + 1e-9
        assert rate <= 1 - (step - 1) / budget + 1e-9
    assert run[-1] == pytest.approx(1 / budget)


@given(warmup=warmups, step=steps, share=shares)
def test_no_pause_makes_the_linear_one_jump(warmup: int, step: int, share: float) -> None:
    config = config_of(schedule="linear", warmup_steps=warmup, learning_rate=1.0)
    assert learning_rate(config, 512, step, after(share)) <= 4 * step / warmup


def test_a_few_minutes_shorten_the_warmup() -> None:
    config = config_of(schedule="linear", warmup_steps=1000, learning_rate=1.0)
    run = [learning_rate(config, 512, step, after(step / 500)) for step in range(1, 501)]
    assert max(run) == pytest.approx(2 / 3, rel=0.01)  # where step / 250 meets 1 − step / 500
    assert run.index(max(run)) == pytest.approx(500 / 3, abs=1)


spents = st.builds(
    Spent, st.integers(0, 10**6), st.floats(0, 1000), st.floats(0, 10**6, allow_subnormal=False)
)


@given(
    spent=spents,
    most_steps=st.integers(1, 10**6),
    epochs=st.none() | st.floats(0.01, 1000),
    minutes=st.none() | st.floats(0.01, 10**4),
)
def test_the_share_is_that_of_the_budget_closest_to_its_end(
    spent: Spent, most_steps: int, epochs: float | None, minutes: float | None
) -> None:
    config = TrainingConfig(steps=most_steps, epochs=epochs, minutes=minutes)
    share = share_spent(config, spent)
    parts = [
        spent.steps / most_steps,
        spent.epochs / (epochs or math.inf),
        spent.seconds / 60 / (minutes or math.inf),
    ]
    assert share == pytest.approx(min(1.0, max(parts)))


@given(spent=spents, more=spents)
def test_the_share_never_falls(spent: Spent, more: Spent) -> None:
    config = TrainingConfig(steps=1000, epochs=7.5, minutes=90.0)
    later = Spent(
        spent.steps + more.steps, spent.epochs + more.epochs, spent.seconds + more.seconds
    )
    assert share_spent(config, later) >= share_spent(config, spent)
