"""Stages of a run: weights of its corpora that change at a step, or at a share of the budget."""

from dataclasses import dataclass

from transduce.config.schema import Config
from transduce.data.languages.weights import Weights, stage_weights
from transduce.data.store import Store
from transduce.training.step.schedule import Spent, share_spent


@dataclass(frozen=True)
class TrainingStages:
    """The weights of each stage, and where all but the last end."""

    weights: tuple[Weights, ...] = ()  # (): one stage, with the loader's own
    ends: tuple[float, ...] = ()  # up to 1, shares of the budget; above, steps

    @classmethod
    def of(cls, config: Config, train: Store) -> "TrainingStages":
        """Return the stages that settings ask for; without any, there is one."""
        ends = tuple(stage.until for stage in config.data.stages if stage.until is not None)
        return cls(tuple(stage_weights(config.data, train)), ends)

    def at(self, config: Config, spent: Spent) -> int:
        """Return the number of the stage, from 0, after what is spent."""
        share = share_spent(config.training, spent)
        return sum((share if end <= 1 else spent.steps) >= end for end in self.ends)
