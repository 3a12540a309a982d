"""A source as a story and a question: which tokens make up which memory."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.text.special_ids import EOS_ID, PAD_ID


@dataclass(frozen=True)
class Story:
    """Which tokens belong together; computed on the device, for each sentence of a batch alone.

    Part 0 is the question, part 1 the latest memory, part 2 the one before it, and so on.
    """

    parts: Tensor  # whether a token belongs to a part, [B, 1+M, S]
    memories: Tensor  # how many there are, also beyond M, [B]
    by_token: Tensor  # whether every token is a memory, for want of sentences, [B]
    order: Tensor  # a token's number within its part, from 1, [B, S]
    sizes: Tensor  # tokens of its part, [B, S]

    @property
    def filled(self) -> Tensor:
        """Which memories there are."""
        return self.parts[:, 1:].any(dim=2)  # [B, M]

    def position_encoding(self, d_model: int, dtype: torch.dtype) -> Tensor:
        """Return l of their §4.1: how the order of words in a sentence weighs each dimension.

        l_kj = (1 − j/J) − (k/d)(1 − 2j/J). Single tokens have no order: their weights are 1.
        """
        j_by_size = (self.order.to(dtype) / self.sizes)[:, :, None]  # [B, S, 1]
        k = torch.arange(1, d_model + 1, device=self.order.device, dtype=dtype)  # [d_model]
        k_by_d = k / d_model
        encoding = (1 - j_by_size) - k_by_d * (1 - 2 * j_by_size)  # [B, S, d_model]
        return torch.where(self.by_token[:, None, None], 1.0, encoding)  # [B, S, d_model]


def story_of(src: Tensor, sentence_end_ids: Sequence[int], memory_size: int) -> Story:
    """Divide source ids, [B, S], into the latest memories and the question, the last sentence."""
    is_word = (src != PAD_ID) & (src != EOS_ID)  # [B, S]
    is_end = torch.zeros_like(is_word)
    for end in sentence_end_ids:
        is_end |= src == end
    index = torch.arange(src.size(1), device=src.device).expand_as(src)  # [B, S]
    sentence = is_end.cumsum(dim=1) - is_end.long()  # [B, S]
    last = (sentence * is_word).amax(dim=1)  # [B]
    by_token = last == 0  # [B]
    unit = torch.where(by_token[:, None], index, sentence)  # [B, S]
    memories = torch.where(by_token, is_word.sum(dim=1), last)  # [B]

    part = memories[:, None] - unit  # [B, S]
    numbers = torch.arange(1 + min(memory_size, src.size(1)), device=src.device)
    parts = (part[:, None] == numbers[:, None]) & is_word[:, None]  # [B, 1+M, S]
    begins = unit != torch.cat([unit[:, :1] - 1, unit[:, :-1]], dim=1)  # [B, S]
    first = torch.where(begins, index, 0).cummax(dim=1).values  # [B, S]
    held = part.clamp(0, len(numbers) - 1)  # [B, S]
    sizes = parts.sum(dim=2).gather(1, held).clamp(min=1)  # [B, S]
    return Story(parts, memories, by_token, index - first + 1, sizes)
