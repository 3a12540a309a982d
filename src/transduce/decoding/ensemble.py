"""Several models with one vocabulary as one: the mean of their probabilities."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from transduce.decoding.answer import log_probabilities
from transduce.models.base import Searchable, SearchState


@dataclass(frozen=True)
class EnsembleState:
    """What each model remembers."""

    states: tuple[Any, ...]

    def select(self, beams: Tensor) -> Self:
        """Do to each what the search asks."""
        return type(self)(tuple(state.select(beams) for state in self.states))

    def keep(self, sentences: Tensor) -> Self:
        """Do to each what the search asks."""
        return type(self)(tuple(state.keep(sentences) for state in self.states))


class Ensemble:
    """Obeys the protocol `Searchable`, so that every search takes it for one model."""

    def __init__(self, models: Sequence[Searchable[Any]]) -> None:
        assert models, "an ensemble of nothing"
        self._models = tuple(models)

    def encode(self, src: Tensor) -> list[Any]:
        """Let each model read the source, [B, S]."""
        return [model.encode(src) for model in self._models]

    def start(self, memory: list[Any], *, max_steps: int) -> EnsembleState:
        """Start each model."""
        pairs = zip(self._models, memory, strict=True)
        states = tuple(model.start(its_own, max_steps=max_steps) for model, its_own in pairs)
        return EnsembleState(states)

    def step(self, last_ids: Tensor, state: EnsembleState) -> tuple[Tensor, EnsembleState]:
        """Read one token of each hypothesis, [B, k]; return log mean p, which are logits too."""
        made: list[tuple[Tensor, SearchState]] = [
            model.step(last_ids, its_own)
            for model, its_own in zip(self._models, state.states, strict=True)
        ]
        log_p = torch.stack([log_probabilities(logits) for logits, _ in made])
        mean = log_p.logsumexp(dim=0) - math.log(len(made))  # [B, k, V]
        return mean, EnsembleState(tuple(after for _, after in made))
