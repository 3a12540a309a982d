"""How fast this machine trains a model: a few steps of it on random tokens, timed."""

import time
from collections.abc import Callable
from dataclasses import replace

import torch

from transduce.config.schema import Config
from transduce.data.batch import Batch
from transduce.data.loader import StepBatches
from transduce.models.build import build_model
from transduce.text.special_ids import BOS_ID, EOS_ID
from transduce.training.distributed import Processes
from transduce.training.step.machine import Machine
from transduce.training.step.train_step import TrainStep

SENTENCE_TOKENS = 32
TIMED_S = 0.2
"""Steps are timed for this long; there are at least two."""

RECORDED_SPEEDUP = 2.0
"""Compiled and recorded steps are taken to be so many times as fast as those that are timed."""

SpeedOf = Callable[[Config, int], float]
"""Returns the tokens per second, source and target, of a model with this many in a batch."""


def measure_speed(config: Config, machine: Machine, batch_tokens: int) -> float:
    """Return the source and target tokens per second that a run with these settings trains on.

    On a CUDA device, compiling would take longer than it is worth: the steps are timed uncompiled.
    """
    model = build_model(config.model, seed=0).to(machine.device)
    step = TrainStep(model, config, replace(machine, may_compile=False))
    batches = _random_batches(config, batch_tokens)
    tokens = batches.src_tokens + batches.tgt_tokens
    made, start = 0, time.monotonic()
    for number in range(1, 50):
        result = step(batches, number=number, rate=1e-6, processes=Processes())
        result.loss.item()  # waits for the device
        if number == 1:
            start = time.monotonic()  # the first step also sets up libraries and memory
            continue
        made += 1
        if made >= 2 and time.monotonic() - start > TIMED_S:
            break
    speed = made * tokens / (time.monotonic() - start)
    is_recorded = machine.uses_cuda_graphs and model.abilities.packed_sequences
    return speed * (RECORDED_SPEEDUP if is_recorded else 1.0)


def _random_batches(config: Config, batch_tokens: int) -> StepBatches:
    length = min(SENTENCE_TOKENS, config.model.max_length or SENTENCE_TOKENS)
    sentences = max(1, batch_tokens // length)
    drawn = torch.Generator().manual_seed(0)
    shape = (sentences, length)
    ids = torch.randint(EOS_ID, config.model.vocab_size, shape, generator=drawn)  # [B, T]
    src = ids.clamp(max=(config.model.src_vocab_size or config.model.vocab_size) - 1)
    tgt_in = torch.cat([torch.full((sentences, 1), BOS_ID), ids[:, :-1]], dim=1)  # [B, T]
    batch = Batch(src, tgt_in, ids, ids.numel(), ids.numel())
    return StepBatches([batch], ids.numel(), ids.numel(), first=0, done=1, epoch_batches=1)
