"""What the Transformer's decoder remembers between two steps of a search."""

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class TransformerState:
    """Keys and values of all N decoder layers.

    The encoder's are there once a sentence, however many hypotheses look at them. The decoder's own
    are written into memory that is taken once, for the longest answer; the first `length` positions
    are filled.
    """

    memory_keys: Tensor  # [N, B, h, S, d_k]
    memory_values: Tensor  # [N, B, h, S, d_v]
    memory_allowed: Tensor  # [B, 1, 1, S]
    keys: Tensor  # [N, B*k, h, max_steps, d_k]
    values: Tensor  # [N, B*k, h, max_steps, d_v]
    length: int = 0

    @classmethod
    def before_first_token(
        cls, memory_keys: Tensor, memory_values: Tensor, memory_allowed: Tensor, *, max_steps: int
    ) -> Self:
        """Take the memory for up to max_steps tokens of one hypothesis a sentence."""
        n_layers, sentences, h, _, d_k = memory_keys.shape
        d_v = memory_values.size(-1)
        return cls(
            memory_keys,
            memory_values,
            memory_allowed,
            keys=memory_keys.new_empty(n_layers, sentences, h, max_steps, d_k),
            values=memory_values.new_empty(n_layers, sentences, h, max_steps, d_v),
        )

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write one position of one layer, [B*k, h, 1, …], and return all positions so far."""
        filled = self.length + 1
        assert filled <= self.keys.size(3), (
            f"started for {self.keys.size(3)} steps, asked for {filled}"
        )
        self.keys[layer, :, :, self.length : filled] = k
        self.values[layer, :, :, self.length : filled] = v
        return self.keys[layer, :, :, :filled], self.values[layer, :, :, :filled]

    def advanced(self) -> Self:
        """Count the position that every layer has just written."""
        return replace(self, length=self.length + 1)

    def select(self, beams: Tensor) -> Self:
        """Reorder, repeat or drop hypotheses within each sentence; beams is [B, k] of the new k."""
        sentences = self.memory_keys.size(1)
        k = self.keys.size(1) // sentences
        firsts = torch.arange(0, sentences * k, k, device=beams.device)
        return self._with_rows((firsts[:, None] + beams).flatten())

    def keep(self, sentences: Tensor) -> Self:
        """Drop the sentences that are not named."""
        assert sentences.dtype == torch.long, "sentences are named by their index"
        k = self.keys.size(1) // self.memory_keys.size(1)
        beams = torch.arange(k, device=sentences.device)
        kept = self._with_rows((sentences[:, None] * k + beams).flatten())
        return replace(
            kept,
            memory_keys=self.memory_keys[:, sentences],
            memory_values=self.memory_values[:, sentences],
            memory_allowed=self.memory_allowed[sentences],
        )

    def _with_rows(self, rows: Tensor) -> Self:
        def taken(cache: Tensor) -> Tensor:
            n_layers, _, h, max_steps, width = cache.shape
            reordered = cache.new_empty(n_layers, rows.numel(), h, max_steps, width)
            reordered[:, :, :, : self.length] = cache[:, rows, :, : self.length]
            return reordered

        return replace(self, keys=taken(self.keys), values=taken(self.values))
