"""Several models with one vocabulary as one: the mean of their probabilities."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from transduce.decoding.answer import log_probabilities
from transduce.models.base import Searchable


@dataclass(frozen=True)
class EnsembleState:
    """What each model remembers."""

    states: tuple[Any, ...]

    def select(self, beams: Tensor) -> None:
        """Do to each what the search asks."""
        for state in self.states:
            state.select(beams)

    def room_for(self, sentences: int, *, max_steps: int) -> Self:
        """Take the memory for each."""
        return type(self)(
            tuple(state.room_for(sentences, max_steps=max_steps) for state in self.states)
        )

    def take(self, other: Self, sentences: Tensor, *, steps: int) -> None:
        """Do to each what the search asks."""
        for mine, its in zip(self.states, other.states, strict=True):
            mine.take(its, sentences, steps=steps)


class Ensemble:
    """Obeys the protocol `Searchable`, so that every search takes it for one model."""

    def __init__(self, models: Sequence[Searchable[Any]]) -> None:
        assert models, "an ensemble of nothing"
        self._models = tuple(models)

    def encode(self, src: Tensor) -> list[Any]:
        """Let each model read the source, [B, S]."""
        return [model.encode(src) for model in self._models]

    def start(self, memory: list[Any], *, hypotheses: int, max_steps: int) -> EnsembleState:
        """Start each model."""
        pairs = zip(self._models, memory, strict=True)
        return EnsembleState(
            tuple(
                model.start(its_own, hypotheses=hypotheses, max_steps=max_steps)
                for model, its_own in pairs
            )
        )

    def step(
        self, last_ids: Tensor, state: EnsembleState, *, position: Tensor, reach: int
    ) -> Tensor:
        """Read one token of each hypothesis, [B, k]; return log mean p, which are logits too."""
        pairs = zip(self._models, state.states, strict=True)
        log_p = torch.stack(
            [
                log_probabilities(model.step(last_ids, its_own, position=position, reach=reach))
                for model, its_own in pairs
            ]
        )
        return log_p.logsumexp(dim=0) - math.log(len(self._models))  # [B, k, V]
