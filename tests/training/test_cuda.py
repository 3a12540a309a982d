"""Training on a GPU gives the losses of the CPU, in the chosen precision."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch

from tests.training.runs import config, setup
from transduce.errors import TransduceError
from transduce.models.build import build_model
from transduce.training.distributed import Processes
from transduce.training.loop import fit
from transduce.training.run.events import Event, MemoryLowered, Stepped
from transduce.training.step.machine import Machine, choose_machine
from transduce.training.step.train_step import TrainStep

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    # Advice, not faults: about a thread's first use of the device, exact float32, and what the
    # compiler inspects.
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf"),
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),
    pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores"),
]
CUDA, CPU = torch.device("cuda", 0), torch.device("cpu")
BF16 = Machine(CUDA, torch.bfloat16)


def losses(
    machine: Machine, *, packed: bool, steps: int = 30, **changes: dict[str, Any]
) -> list[float]:
    settings = config(**{"training": {"batch_tokens": 200}, **changes})
    loader = replace(setup(Path(), settings).loader, packed=packed)
    train_step = TrainStep(build_model(settings.model).to(machine.device), settings, machine)
    made, number = [], 0
    for epoch in range(100):
        for batches in loader.steps(epoch):
            number += 1
            step = train_step(batches, number=number, rate=3e-3, processes=Processes())
            made.append(step.loss)
            if number == steps:
                return [loss.item() for loss in made]
    raise AssertionError


def test_auto_is_bf16_where_the_gpu_has_it() -> None:
    assert choose_machine(config().run) == Machine(CUDA, torch.bfloat16)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("machine", "tolerance"),
    [
        (Machine(CUDA), 1e-3),
        (Machine(CUDA, torch.bfloat16), 3e-2),
    ],
    ids=["float32", "bf16"],
)
def test_the_losses_are_those_of_the_cpu(machine: Machine, tolerance: float, packed: bool) -> None:
    """Padded batches run kernel by kernel; packed rows are compiled and recorded."""
    on_gpu, on_cpu = (losses(each, packed=packed) for each in (machine, Machine(CPU)))
    assert on_gpu == pytest.approx(on_cpu, rel=tolerance)
    assert on_gpu[-1] < on_gpu[0]


@pytest.mark.parametrize(
    "unusual",
    [
        {"norm": "pre", "activation": "swish", "output_bias": True, "positions": "learned"},
        {"d_k": 24, "d_v": 16, "attention_bias": True, "n_layers": 2},
    ],
    ids=["pre-norm", "heads"],
)
def test_unusual_models_are_recorded_too(unusual: dict[str, Any]) -> None:
    on_gpu, on_cpu = (losses(Machine(device), packed=True, model=unusual) for device in (CUDA, CPU))
    assert on_gpu == pytest.approx(on_cpu, rel=1e-3)


def test_a_source_embedding_of_its_own_is_recorded_too() -> None:
    separate: dict[str, Any] = {
        "model": {"src_vocab_size": 1_000},
        "data": {"shared_vocabulary": False},
    }
    on_gpu, on_cpu = (losses(Machine(device), packed=True, **separate) for device in (CUDA, CPU))
    assert on_gpu == pytest.approx(on_cpu, rel=1e-3)


def test_dropout_depends_only_on_the_number_of_the_step_even_when_replayed() -> None:
    settings = config(model={"p_drop": 0.5, "p_drop_ff": 0.2}, training={"batch_tokens": 200})
    machine = Machine(CUDA, torch.bfloat16)
    loader = replace(setup(Path(), settings).loader, packed=True)
    train_step = TrainStep(build_model(settings.model).to(CUDA), settings, machine)
    batches = next(loader.steps(0))
    numbers = [1, 2, 3, 4, 3, 4]  # the first computes, the second records, the others are replayed
    made = [train_step(batches, number=n, rate=0.0, processes=Processes()) for n in numbers]
    found = [(step.loss.item(), step.gradient_norm.item()) for step in made]
    assert len(set(found[:4])) == 4
    assert found[2:4] == found[4:]


def test_a_failing_compiler_is_an_error_that_says_what_to_do() -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no space left")

    torch.compiler.reset()
    fails = pytest.raises(TransduceError, match=r"no space left\); --set run.compile=false")
    with patch("torch._inductor.compile_fx.compile_fx", refuse), fails:
        losses(Machine(CUDA), packed=True)
    assert losses(Machine(CUDA, may_compile=False), packed=False, steps=2)


def test_a_stopped_run_resumes_with_the_same_losses(tmp_path: Path) -> None:
    def made(folder: Path, stops: list[int]) -> dict[int, float]:
        told: list[Event] = []
        for stop in [*stops, 10**9]:
            run = setup(folder, config(), tell=told.append, device="cuda")
            asked = iter(range(stop))
            fit(replace(run, stopped=lambda asked=asked: next(asked, None) is None))  # type: ignore[misc]
        return {event.step: event.loss for event in told if isinstance(event, Stepped)}

    whole, parts = made(tmp_path / "whole", []), made(tmp_path / "parts", [15])
    for step in (10, 30, 40):
        assert parts[step] == pytest.approx(whole[step], rel=1e-3)


def test_a_new_process_finds_what_an_earlier_one_compiled(tmp_path: Path) -> None:
    steps = (
        "from tests.training.test_cuda import BF16, losses\n"
        "print(losses(BF16, packed=True, steps=3))"
    )
    environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}  # noqa: TID251
    first, second = (
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", steps],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        for _ in range(2)
    )
    assert first.returncode == 0, first.stderr
    assert (second.returncode, second.stdout) == (0, first.stdout), second.stderr


def test_memory_that_really_runs_out_splits_the_batch(tmp_path: Path) -> None:
    wide = {"d_model": 512, "h": 8, "d_ff": 16_384, "p_drop": 0.1}
    settings = config(model=wide, training={"batch_tokens": 400_000, "steps": 3})
    told: list[Event] = []
    run = setup(tmp_path, settings, tell=told.append, pairs=40_000, device="cuda")
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(6e9 / total)
    try:
        assert fit(run) == "3 steps are made"
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert [event for event in told if isinstance(event, MemoryLowered)]
