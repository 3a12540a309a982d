"""Guided training steps: the head learns the links, however the batches are cut."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.training.runs import config, setup
from transduce.config.schema import Config
from transduce.data.loader import Loader
from transduce.data.store import Sentences
from transduce.models.build import build_model
from transduce.training.distributed import Processes
from transduce.training.step.machine import Machine
from transduce.training.step.train_step import TrainStep

MODEL: dict[str, Any] = {"n_layers": 2, "guided_alignment": 1.0}
ON_CPU = Machine(torch.device("cpu"))


def reversing(settings: Config, *, packed: bool = False) -> Loader:
    """Return a loader of sentences and their reverse, with the links that say so."""
    loader = replace(setup(Path(), settings).loader, packed=packed)
    lengths = loader.store.tgt.lengths
    links = np.concatenate([np.arange(n, 0, -1, dtype=np.uint16) for n in lengths])
    return replace(
        loader, store=replace(loader.store, links=Sentences(links, loader.store.tgt.ends))
    )


def trained(
    machine: Machine,
    *,
    steps: int,
    packed: bool = False,
    max_tokens: int | None = None,
    weight: float = 1.0,
) -> tuple[TrainStep, list[float]]:
    guided = MODEL | {"guided_alignment": weight}
    settings = config(model=guided, training={"batch_tokens": 200})
    loader = reversing(settings, packed=packed)
    train_step = TrainStep(build_model(settings.model).to(machine.device), settings, machine)
    train_step.max_tokens = max_tokens
    losses: list[torch.Tensor] = []
    for epoch in range(100):
        for batches in loader.steps(epoch):
            number = len(losses) + 1
            made = train_step(batches, number=number, rate=5e-3, processes=Processes())
            losses.append(made.loss)
            if number == steps:
                return train_step, [loss.item() for loss in losses]
    raise AssertionError


def test_the_guided_head_learns_the_links() -> None:
    """Its weight for the linked token is twice that of the same head without guidance."""
    with_guide, without = (linked_weight(trained(ON_CPU, steps=120, weight=w)[0]) for w in (1, 0))
    assert with_guide > 2 * without


def linked_weight(train_step: TrainStep) -> float:
    """Return the first layer's first head's mean weight for the linked token."""
    [*_, batch] = reversing(config(model=MODEL)).batches(0)
    assert batch.links is not None
    with torch.inference_mode():
        cross = train_step.model.eval().attention_maps(batch.src, batch.tgt_in).cross[0, :, 0]
    chosen = cross.gather(2, batch.links.clamp_min(0)[:, :, None])[:, :, 0]
    return float(chosen[batch.links >= 0].mean())


@pytest.mark.parametrize("packed", [False, True])
def test_batches_in_pieces_are_guided_as_whole_ones(packed: bool) -> None:
    _, whole = trained(ON_CPU, steps=5, packed=packed)
    _, pieces = trained(ON_CPU, steps=5, packed=packed, max_tokens=37)
    assert pieces == pytest.approx(whole, rel=1e-5)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS")
@pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores")
@pytest.mark.parametrize("packed", [False, True])
def test_on_a_gpu_the_losses_are_those_of_the_cpu(packed: bool) -> None:
    """Packed rows are compiled and recorded, with the links among their tensors."""
    _, on_gpu = trained(Machine(torch.device("cuda", 0)), steps=30, packed=packed)
    _, on_cpu = trained(ON_CPU, steps=30, packed=packed)
    assert on_gpu == pytest.approx(on_cpu, rel=1e-3)
    assert on_gpu[-1] < on_gpu[0]
