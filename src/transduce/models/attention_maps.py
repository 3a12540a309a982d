"""Every attention weight of a Transformer, asked for from outside: the model itself keeps none."""

from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.models.transformer import Transformer
from transduce.models.transformer_state import TransformerState
from transduce.nn.attention import AttentionRecorder


@dataclass(frozen=True)
class AttentionMaps:
    """The weights of every head of every layer over whole sentences."""

    encoder: Tensor  # [N, B, h, S, S]
    decoder: Tensor  # [N, B, h, T, T]
    cross: Tensor  # [N, B, h, T, S]


@dataclass(frozen=True)
class StepMaps:
    """The weights with which one step looked at the t tokens so far and at the source."""

    decoder: Tensor  # [N, B*k, h, 1, t]
    cross: Tensor  # [N, B*k, h, 1, S]


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


def step_with_maps(
    model: Transformer, last_ids: Tensor, state: TransformerState
) -> tuple[Tensor, TransformerState, StepMaps]:
    """Do `model.step` and return its weights too, a row for each hypothesis."""
    recorder = AttentionRecorder()
    logits, after = model.step(last_ids, state, attend=recorder)
    cross = torch.stack(recorder.weights[1::2])  # [N, B, h, k, S]
    by_hypothesis = cross.transpose(2, 3).flatten(1, 2)[:, :, :, None]  # [N, B*k, h, 1, S]
    return logits, after, StepMaps(decoder=torch.stack(recorder.weights[0::2]), cross=by_hypothesis)
