"""Drafters and models for tests of speculative decoding."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from transduce.models.transformer.model import Transformer
from transduce.search.speculative.drafter import Draft


@dataclass(frozen=True)
class GivenDraft:
    """Proposes from a text that is given, whatever was kept of it before."""

    text: list[int]

    def start(self, src: Tensor, *, max_steps: int) -> Draft:
        assert src.size(0) == 1
        assert max_steps >= 1
        return self

    def propose(self, ids: list[int], count: int) -> Tensor:
        return torch.tensor(self.text[len(ids) : len(ids) + count], dtype=torch.long)


@dataclass
class CountedPasses:
    """A model that notes how many tokens it reads in each pass, and from which position on."""

    model: Transformer
    passes: list[tuple[int, int]] = field(default_factory=list)

    def encode(self, src: Tensor) -> Any:
        return self.model.encode(src)

    def start(self, memory: Any, *, hypotheses: int, max_steps: int) -> Any:
        return self.model.start(memory, hypotheses=hypotheses, max_steps=max_steps)

    def step(self, last_ids: Tensor, state: Any, *, position: Tensor, reach: int) -> Tensor:
        del last_ids, state, position, reach
        raise AssertionError("the state is read by `multi_token_step` alone")

    def multi_token_step(self, ids: Tensor, state: Any, *, position: Tensor, reach: int) -> Tensor:
        self.passes.append((int(position), ids.size(1)))
        return self.model.multi_token_step(ids, state, position=position, reach=reach)
