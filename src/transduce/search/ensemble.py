"""Several models with one vocabulary as one: the mean of their probabilities."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from transduce.models.base import Abilities, Seq2Seq
from transduce.nn.step_state import StateGroup
from transduce.search.hypothesis import log_probabilities


@dataclass(frozen=True)
class EnsembleState(StateGroup):
    """The states of all models."""

    states: tuple[Any, ...]


class Ensemble:
    """Implements `Searchable`, so every search can use it as one model."""

    def __init__(self, models: Sequence[Seq2Seq]) -> None:
        assert models, "an ensemble of nothing"
        self.models = tuple(models)

    @property
    def abilities(self) -> Abilities:
        """What it can do: its step may be recorded if the steps of all models may."""
        return Abilities(recorded_step=all(m.abilities.recorded_step for m in self.models))

    def encode(self, src: Tensor) -> list[Any]:
        """Encode the source, [B, S], with each model."""
        return [model.encode(src) for model in self.models]

    def start(self, memory: list[Any], *, hypotheses: int, max_steps: int) -> EnsembleState:
        """Return the states of all models before the first token."""
        pairs = zip(self.models, memory, strict=True)
        return EnsembleState(
            tuple(
                model.start(its_memory, hypotheses=hypotheses, max_steps=max_steps)
                for model, its_memory in pairs
            )
        )

    def step(
        self, last_ids: Tensor, state: EnsembleState, *, position: Tensor, reach: int
    ) -> Tensor:
        """Read one token of each hypothesis, [B, k]; return log mean p, which are logits too."""
        pairs = zip(self.models, state.states, strict=True)
        log_p = torch.stack(
            [
                log_probabilities(model.step(last_ids, its_state, position=position, reach=reach))
                for model, its_state in pairs
            ]
        )
        return log_p.logsumexp(dim=0) - math.log(len(self.models))  # [B, k, V]
