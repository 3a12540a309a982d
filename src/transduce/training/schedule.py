"""The learning rate (§5.3), and when a run is over."""

import math
from dataclasses import dataclass

from transduce.config.schema import TrainingConfig

SOONER = 4
"""So many times sooner than asked for the rate may be at its peak where minutes end the run."""


@dataclass(frozen=True)
class Spent:
    """What a run has spent so far."""

    steps: int
    epochs: float
    seconds: float


def share_spent(config: TrainingConfig, spent: Spent) -> float:
    """Return the share, 0 to 1, of the budget that is nearest to its end."""
    return max(_share_counted(config, spent), _share_of_time(config, spent))


def learning_rate(config: TrainingConfig, d_model: int, step: int, spent: Spent) -> float:
    """Return the rate of a step, counted from 1, when so much is spent.

    The paper's: d_model^-0.5 · min(step^-0.5, step · warmup^-1.5), here written with its peak.
    The linear one rises over a tenth of the budget where that is shorter than the warm-up. Time
    also passes while no step is made, and a rate that leaps ruins a post-norm model for good: so
    minutes may shorten the warm-up, but not without limit.
    """
    peak = config.learning_rate or 1 / math.sqrt(d_model * config.warmup_steps)
    rising = step / config.warmup_steps
    match config.schedule:
        case "paper":
            return peak * min(rising, math.sqrt(config.warmup_steps / step))
        case "linear":
            sooner = min(10 * _share_of_time(config, spent), SOONER * rising)
            risen = max(rising, sooner, 10 * _share_counted(config, spent))
            return peak * min(risen, 1 - share_spent(config, spent))


def _share_counted(config: TrainingConfig, spent: Spent) -> float:
    epochs = 0.0 if config.epochs is None else spent.epochs / config.epochs
    return min(1.0, max(spent.steps / config.steps, epochs))


def _share_of_time(config: TrainingConfig, spent: Spent) -> float:
    return 0.0 if config.minutes is None else min(1.0, spent.seconds / (60 * config.minutes))
