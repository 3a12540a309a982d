"""The model learns: plain torch, a few seconds on a CPU, whole sequences exact."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from tests.drawing import transformer
from transduce.models.transformer.model import Transformer
from transduce.models.transformer.settings import TransformerConfig
from transduce.text.special_ids import BOS_ID, EOS_ID, PAD_ID

LONGEST, SYMBOLS, STEPS = 6, 10, 300


def copied(words: list[int]) -> list[int]:
    return words


def reversed_(words: list[int]) -> list[int]:
    return words[::-1]


def examples(
    task: Callable[[list[int]], list[int]], count: int, seed: int
) -> tuple[Tensor, Tensor]:
    """Draw source sequences, [B, S], and what they should become, ended by EOS, [B, S+1]."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(4, 4 + SYMBOLS, (count, LONGEST), generator=generator).tolist()
    lengths = torch.randint(1, LONGEST + 1, (count,), generator=generator).tolist()
    src = torch.full((count, LONGEST), PAD_ID)
    tgt = torch.full((count, LONGEST + 1), PAD_ID)
    for row, (sentence, n) in enumerate(zip(words, lengths, strict=True)):
        src[row, :n] = torch.tensor(sentence[:n])
        tgt[row, : n + 1] = torch.tensor([*task(sentence[:n]), EOS_ID])
    return src, tgt


def train(model: Transformer, task: Callable[[list[int]], list[int]]) -> None:
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.9, 0.98), eps=1e-9)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min((step + 1) / 100, 1) * (1 - step / STEPS)
    )
    for step in range(STEPS):
        src, tgt = examples(task, 64, seed=step)
        tgt_in = torch.cat([torch.full((64, 1), BOS_ID), tgt[:, :-1]], dim=1)
        logits = model(src, tgt_in)
        loss = cross_entropy(logits.flatten(0, 1), tgt.flatten(), ignore_index=PAD_ID)
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
        schedule.step()


@torch.no_grad()
def greedy(model: Transformer, src: Tensor) -> Tensor:
    state = model.start(model.encode(src), hypotheses=1, max_steps=LONGEST + 1)
    last = torch.full((src.size(0), 1), BOS_ID)
    written = []
    for step in range(LONGEST + 1):
        logits = model.step(last, state, position=torch.tensor([step]), reach=step + 1)
        last = logits.argmax(dim=-1)
        written.append(last)
    return torch.cat(written, dim=1)


@pytest.mark.parametrize("task", [copied, reversed_])
def test_a_small_model_learns_exact_sequences(task: Callable[[list[int]], list[int]]) -> None:
    model = transformer(
        TransformerConfig(vocab_size=4 + SYMBOLS, n_layers=2, d_model=64, d_ff=128, h=4, p_drop=0.0)
    )
    train(model, task)
    src, tgt = examples(task, 1000, seed=10**6)
    written = greedy(model.eval(), src)
    exact = ((written == tgt) | (tgt == PAD_ID)).all(dim=1).float().mean().item()
    assert exact > 0.98
