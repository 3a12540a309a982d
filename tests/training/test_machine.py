"""The device and the precision that the settings choose."""

from typing import Any

import pytest
import torch

from transduce.config.schema import RunConfig
from transduce.errors import InputError
from transduce.training.step.machine import Machine, choose_machine

without_cuda = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
without_mps = pytest.mark.skipif(torch.backends.mps.is_available(), reason="this machine has MPS")


def test_a_cpu_computes_in_float32() -> None:
    machine = choose_machine(RunConfig(device="cpu"))
    assert machine == Machine(torch.device("cpu"), autocast=None)
    assert machine.precision == "float32"


@without_cuda
@without_mps
def test_without_a_gpu_auto_is_the_cpu() -> None:
    assert choose_machine(RunConfig()) == choose_machine(RunConfig(device="cpu"))


def test_bf16_can_be_asked_for_on_a_cpu() -> None:
    machine = choose_machine(RunConfig(device="cpu", precision="bf16"))
    assert machine == Machine(torch.device("cpu"), torch.bfloat16)
    assert machine.precision == "bf16"


def test_compiling_can_be_forbidden() -> None:
    assert choose_machine(RunConfig(device="cpu", compile=False)).may_compile is False
    assert Machine(torch.device("cuda"), may_compile=False).uses_cuda_graphs is False


@pytest.mark.parametrize(
    ("precision", "kind"), [("float32", torch.float32), ("bf16", torch.bfloat16)]
)
def test_matrix_products_have_the_chosen_precision(precision: Any, kind: torch.dtype) -> None:
    machine = choose_machine(RunConfig(device="cpu", precision=precision))
    weights = torch.ones(2, 2)
    with machine.autocasting():
        assert (weights @ weights).dtype == kind
    assert (weights @ weights).dtype == torch.float32


@without_cuda
@pytest.mark.parametrize("device", ["cuda", "cuda:0", "cuda:7"])
def test_a_missing_cuda_device_is_named(device: str) -> None:
    with pytest.raises(
        InputError, match=r"run\.device=cuda(:\d)?: this machine has no CUDA device"
    ):
        choose_machine(RunConfig(device=device))


@without_mps
def test_mps_where_there_is_none_is_named() -> None:
    with pytest.raises(InputError, match=r"run\.device=mps: this machine has none; use auto"):
        choose_machine(RunConfig(device="mps"))
