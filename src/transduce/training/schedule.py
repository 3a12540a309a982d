"""The learning rate (§5.3), and when a run is over."""

import math
from dataclasses import dataclass

from transduce.config.schema import TrainingConfig


@dataclass(frozen=True)
class Spent:
    """What a run has spent so far."""

    steps: int
    epochs: float
    seconds: float
    starting: float = 0.0  # of these seconds, before the first steps: what is compiled is so then


def share_spent(config: TrainingConfig, spent: Spent) -> float:
    """Return the share, 0 to 1, of the budget that is nearest to its end."""
    return _share(config, spent, spent.seconds)


def _share(config: TrainingConfig, spent: Spent, seconds: float) -> float:
    shares = [spent.steps / config.steps]
    if config.epochs is not None:
        shares.append(spent.epochs / config.epochs)
    if config.minutes is not None:
        shares.append(seconds / (60 * config.minutes))
    return min(1.0, max(shares))


def learning_rate(config: TrainingConfig, d_model: int, step: int, spent: Spent) -> float:
    """Return the rate of a step, counted from 1, when so much is spent.

    The paper's: d_model^-0.5 · min(step^-0.5, step · warmup^-1.5), here written with its peak.
    The linear one rises over a tenth of the budget where that is shorter than the warm-up; time
    before the first steps does not count for that, else it would leap.
    """
    peak = config.learning_rate or 1 / math.sqrt(d_model * config.warmup_steps)
    rising = step / config.warmup_steps
    match config.schedule:
        case "paper":
            return peak * min(rising, math.sqrt(config.warmup_steps / step))
        case "linear":
            share_risen = _share(config, spent, spent.seconds - spent.starting)
            return peak * min(max(rising, 10 * share_risen), 1 - share_spent(config, spent))
