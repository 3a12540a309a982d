"""What the Transformer's decoder remembers between two steps of a search."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from transduce.nn.attention import Attend, attend_fused
from transduce.nn.device import MAX_PLACES, fits_kernels, runs_kernels


@dataclass(frozen=True)
class TransformerState:
    """Keys and values of all N decoder layers, for k hypotheses of each of B sentences.

    The encoder's are there once a sentence, however many hypotheses look at them. The decoder's own
    stay where they were written: at each position a sentence has k places, one for each hypothesis
    of that time, and `past` says from which of them each hypothesis of today descends, or −1 where
    nothing is written yet. So to reorder hypotheses is to move a small table.
    """

    memory_keys: Tensor  # [N, B, h, S, d_k]
    memory_values: Tensor  # [N, B, h, S, d_v]
    memory_allowed: Tensor  # [B, 1, 1, S]
    keys: Tensor  # [N, B, h, max_steps, k, d_k]
    values: Tensor  # [N, B, h, max_steps, k, d_v]
    past: Tensor  # [B, k, max_steps]

    @classmethod
    def before_first_token(
        cls,
        memory_keys: Tensor,
        memory_values: Tensor,
        memory_allowed: Tensor,
        *,
        hypotheses: int,
        max_steps: int,
    ) -> Self:
        """Take the memory for up to max_steps tokens of each hypothesis."""
        n_layers, sentences, h, _, d_k = memory_keys.shape
        slots = (n_layers, sentences, h, max_steps, hypotheses)
        past = (sentences, hypotheses, max_steps)
        return cls(
            memory_keys,
            memory_values,
            memory_allowed,
            # Zeros: what nobody looks at must still be a number.
            keys=memory_keys.new_zeros(*slots, d_k),
            values=memory_values.new_zeros(*slots, memory_values.size(-1)),
            past=torch.full(past, -1, dtype=torch.int32, device=memory_keys.device),
        )

    def lengthen(self, position: Tensor) -> None:
        """Give every hypothesis its own place at this position."""
        itself = torch.arange(self.past.size(1), dtype=torch.int32, device=self.past.device)
        self.past.index_copy_(2, position, itself[:, None].expand_as(self.past[:, :, :1]))

    def look_back(self, position: Tensor, *, reach: int) -> tuple[Tensor | None, Attend]:
        """Return where each hypothesis may look among the places, and how it looks there."""
        d_k, d_v = self.keys.size(-1), self.values.size(-1)
        fits = fits_kernels(self.past.size(1), d_k, d_v, self.keys.dtype)
        if fits and self.past[0].numel() <= MAX_PLACES and runs_kernels(self.keys):
            from transduce.nn.kernels import attend_past, survivors

            places, counts = survivors(self.past, position)

            def attend(q: Tensor, k: Tensor, v: Tensor, **_: object) -> Tensor:
                return attend_past(q, k, v, self.past, places, counts)

            return None, attend
        all_places = torch.arange(self.past.size(1), device=self.past.device)
        is_own = self.past[:, None, :, :reach, None] == all_places
        allowed = is_own.flatten(3)  # [B, 1, k, reach*k]
        return allowed, attend_fused

    def append(
        self, layer: int, k: Tensor, v: Tensor, position: Tensor, *, reach: int
    ) -> tuple[Tensor, Tensor]:
        """Write one position of one layer, [B, h, k, …]; return all, each [B, h, reach*k, …]."""
        keys, values = self.keys[layer], self.values[layer]
        if runs_kernels(k):
            from transduce.nn.kernels import write_at

            write_at(position, keys, values, k, v)
        elif k.is_cpu:  # where nobody has to wait to learn what the position is
            keys[:, :, int(position)] = k
            values[:, :, int(position)] = v
        else:
            keys.index_copy_(2, position, k[:, :, None])
            values.index_copy_(2, position, v[:, :, None])
        return keys[:, :, :reach].flatten(2, 3), values[:, :, :reach].flatten(2, 3)

    def select(self, beams: Tensor) -> None:
        """Reorder, repeat or drop hypotheses within each sentence; beams is [B, k]."""
        rows = beams[:, :, None].expand_as(self.past)
        self.past.copy_(self.past.gather(1, rows))

    def room_for(self, sentences: int, *, max_steps: int) -> Self:
        """Take the memory for so many sentences and steps of the same kind."""
        n_layers, _, *of_keys = self.memory_keys.shape
        of_values = self.memory_values.shape[2:]
        return self.before_first_token(
            self.memory_keys.new_zeros(n_layers, sentences, *of_keys),
            self.memory_values.new_zeros(n_layers, sentences, *of_values),
            self.memory_allowed.new_zeros(sentences, *self.memory_allowed.shape[1:]),
            hypotheses=self.past.size(1),
            max_steps=max_steps,
        )

    def take(self, other: Self, sentences: Tensor, *, steps: int) -> None:
        """Become those sentences of another state, which has read so many tokens."""
        for mine, its in (
            (self.memory_keys, other.memory_keys),
            (self.memory_values, other.memory_values),
            (self.keys[:, :, :, :steps], other.keys[:, :, :, :steps]),
            (self.values[:, :, :, :steps], other.values[:, :, :, :steps]),
        ):
            for layer in range(mine.size(0)):  # one by one: the copy in between is that of one
                mine[layer].copy_(its[layer][sentences])
        self.memory_allowed.copy_(other.memory_allowed[sentences])
        self.past.fill_(-1)
        self.past[:, :, :steps] = other.past[sentences, :, :steps]
