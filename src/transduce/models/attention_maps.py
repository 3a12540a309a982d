"""Every attention weight of a Transformer, asked for from outside: the model itself keeps none."""

from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.models.transformer import Transformer
from transduce.nn.attention import AttentionRecorder


@dataclass(frozen=True)
class AttentionMaps:
    """The weights of every head of every layer over whole sentences."""

    encoder: Tensor  # [N, B, h, S, S]
    decoder: Tensor  # [N, B, h, T, T]
    cross: Tensor  # [N, B, h, T, S]


def attention_maps(model: Transformer, src: Tensor, tgt_in: Tensor) -> AttentionMaps:
    """Read a source, [B, S], and a target shifted right, [B, T], and return all weights."""
    reading, writing = AttentionRecorder(), AttentionRecorder()
    memory = model.encode(src, attend=reading)
    model.decode(memory, tgt_in, attend=writing)
    # A decoder layer attends twice: to itself, then to the memory.
    return AttentionMaps(
        encoder=torch.stack(reading.weights),
        decoder=torch.stack(writing.weights[0::2]),
        cross=torch.stack(writing.weights[1::2]),
    )
