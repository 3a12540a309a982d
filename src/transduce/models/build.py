"""Models built from settings, by kind."""

import torch

from transduce.config.kinds import find_kind
from transduce.config.schema import ModelConfig
from transduce.models.base import Seq2Seq
from transduce.nn.initialise import initialise


def build_model(config: ModelConfig, *, seed: int = 0) -> Seq2Seq:
    """Build a model with new weights on torch's default device; equal seeds give equal weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = assemble(config)
        initialise(model)
    return model


def assemble(config: ModelConfig) -> Seq2Seq:
    """Build a model of the kind and sizes in the settings; its weights are not initialised yet."""
    model: Seq2Seq = find_kind(config.kind).build(config)
    return model
