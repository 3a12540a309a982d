"""A model that writes by a script, through the protocol alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import torch
from torch import Tensor, nn

from transduce.models.base import Memory
from transduce.text.special_ids import EOS_ID, PAD_ID

Script = Mapping[tuple[int, ...], list[int]]
"""What to write for which source ids."""


@dataclass
class ScriptedState:
    """What to write for each sentence."""

    targets: list[list[int]]

    def select(self, beams: Tensor) -> None:
        assert not beams.any(), "a script has one hypothesis"

    def allocate_like(self, sentences: int, *, max_steps: int) -> Self:
        assert max_steps >= 1
        return type(self)([[]] * sentences)

    def copy_from(self, other: Self, sentences: Tensor, *, steps: int) -> None:
        assert steps >= 1
        self.targets = [other.targets[row] for row in sentences.tolist()]


@dataclass
class ScriptedModel:
    """Writes by its script, then EOS; notes how it was called."""

    script: Script
    vocab_size: int
    training: bool = True
    batches: list[tuple[int, int]] = field(default_factory=list)  # sentences and positions
    rows: list[int] = field(default_factory=list)  # sentences in each step
    modes: set[bool] = field(default_factory=set)  # was it training when called?
    autocasts: list[torch.dtype | None] = field(default_factory=list)

    def train(self, mode: bool = True) -> Self:
        self.training = mode
        return self

    def encode(self, src: Tensor) -> Memory:
        self.modes.add(self.training)
        enabled = torch.is_autocast_enabled("cpu")
        self.autocasts.append(torch.get_autocast_dtype("cpu") if enabled else None)
        self.batches.append((src.size(0), src.size(1)))
        return Memory(states=src[:, :, None], allowed=(src != PAD_ID)[:, None, None, :])

    @property
    def projection(self) -> Tensor:
        raise NotImplementedError

    def decode_states(self, memory: Memory, tgt_in: Tensor) -> Tensor:
        raise NotImplementedError

    def decode(self, memory: Memory, tgt_in: Tensor) -> Tensor:
        raise NotImplementedError

    def start(self, memory: Memory, *, hypotheses: int, max_steps: int) -> ScriptedState:
        assert hypotheses == 1
        assert max_steps >= 1
        sources = memory.states[:, :, 0].tolist()
        ids = [tuple(token for token in row if token != PAD_ID) for row in sources]
        return ScriptedState([self.script[row] for row in ids])

    def step(
        self, last_ids: Tensor, state: ScriptedState, *, position: Tensor, reach: int
    ) -> Tensor:
        step = int(position)
        assert step < reach
        assert last_ids.shape == (len(state.targets), 1)
        self.rows.append(len(state.targets))
        tokens = torch.tensor([[*target, *[EOS_ID] * reach][step] for target in state.targets])
        return 9 * nn.functional.one_hot(tokens[:, None], self.vocab_size).float()
