"""A model of bigrams: random logits by the last token, which vary more than a random Transformer's.

That repeats its last token mostly, because it writes with the embedding it reads with.
"""

import torch
from torch import Tensor

from transduce.nn.step_state import SentenceState


class Bigrams:
    """Scores tokens by the last one, by the first token of the source and by the position."""

    def __init__(self, vocab_size: int, *, seed: int, device: str = "cpu") -> None:
        generator = torch.Generator().manual_seed(seed)
        shape = (vocab_size, vocab_size, vocab_size)
        self._table = 2 * torch.randn(shape, generator=generator).to(device)

    def encode(self, src: Tensor) -> Tensor:
        return src[:, 0]

    def start(self, memory: Tensor, *, hypotheses: int, max_steps: int) -> SentenceState:
        del hypotheses, max_steps
        return SentenceState(memory)

    def step(
        self, last_ids: Tensor, state: SentenceState, *, position: Tensor, reach: int
    ) -> Tensor:
        del reach
        # By the position too, or the same bigrams in another order would tie.
        return self._table[state.tensor[:, None], last_ids] * (1 + position / 40)  # [B, k, V]
