"""The learning rate (§5.3), and how much of the budget is spent."""

import math
from dataclasses import dataclass

from transduce.config.schema import TrainingConfig

MAX_WARMUP_SHARE = 0.5
"""The share of a budget that the linear schedule's warm-up may take."""
MAX_WARMUP_SPEEDUP = 4
"""How many times faster than asked the rate may rise where a budget in minutes ends the run."""


@dataclass(frozen=True)
class Spent:
    """What a run has spent so far."""

    steps: int
    epochs: float
    seconds: float


def share_spent(config: TrainingConfig, spent: Spent) -> float:
    """Return the share spent, 0 to 1, of the budget that is closest to its end."""
    return max(_share_counted(config, spent), _share_of_time(config, spent))


def learning_rate(config: TrainingConfig, d_model: int, step: int, spent: Spent) -> float:
    """Return the learning rate of a step, counted from 1, given what was spent before it.

    The paper's: d_model^-0.5 · min(step^-0.5, step · warmup^-1.5), here written with its peak.
    The linear one rises over half of the budget where that is shorter than the warm-up. Time also
    passes between steps, and a rate that jumps ruins a post-norm model for good: so a budget in
    minutes may shorten the warm-up, but not without limit.
    """
    peak = peak_rate(config, d_model)
    warmup = step / config.warmup_steps
    match config.schedule:
        case "paper":
            return peak * min(warmup, math.sqrt(config.warmup_steps / step))
        case "linear":
            by_time = _share_of_time(config, spent) / MAX_WARMUP_SHARE
            counted = _share_counted(config, spent) / MAX_WARMUP_SHARE
            rise = max(warmup, counted, min(by_time, MAX_WARMUP_SPEEDUP * warmup))
            return peak * min(rise, 1 - share_spent(config, spent))
        case "constant":
            return peak * min(warmup, 1.0)


def peak_rate(config: TrainingConfig, d_model: int) -> float:
    """Return the rate at the end of the warm-up."""
    return config.learning_rate or 1 / math.sqrt(d_model * config.warmup_steps)


def is_past_peak(config: TrainingConfig, d_model: int, spent: Spent) -> bool:
    """Return whether the learning rate rises no more."""
    now, following = (
        learning_rate(config, d_model, step, spent) for step in (spent.steps, spent.steps + 1)
    )
    return following <= now


def _share_counted(config: TrainingConfig, spent: Spent) -> float:
    epochs = 0.0 if config.epochs is None else spent.epochs / config.epochs
    return min(1.0, max(spent.steps / config.steps, epochs))


def _share_of_time(config: TrainingConfig, spent: Spent) -> float:
    return 0.0 if config.minutes is None else min(1.0, spent.seconds / (60 * config.minutes))
