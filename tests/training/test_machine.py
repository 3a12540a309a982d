"""What is computed on, and how precisely."""

from typing import Any

import pytest
import torch

from transduce.config.schema import RunConfig
from transduce.errors import ConfigError
from transduce.training.machine import Machine, choose_machine

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


def test_what_is_asked_for_is_done_on_a_cpu_too() -> None:
    machine = choose_machine(RunConfig(device="cpu", precision="bf16"))
    assert machine == Machine(torch.device("cpu"), torch.bfloat16)
    assert machine.precision == "bf16"


def test_compiling_can_be_forbidden() -> None:
    assert choose_machine(RunConfig(device="cpu", compile=False)).may_compile is False
    assert Machine(torch.device("cuda"), may_compile=False).records is False


@pytest.mark.parametrize(
    ("precision", "kind"), [("float32", torch.float32), ("bf16", torch.bfloat16)]
)
def test_matrix_products_have_the_chosen_precision(precision: Any, kind: torch.dtype) -> None:
    machine = choose_machine(RunConfig(device="cpu", precision=precision))
    weights = torch.ones(2, 2)
    with machine.arithmetic():
        assert (weights @ weights).dtype == kind
    assert (weights @ weights).dtype == torch.float32


@without_cuda
@pytest.mark.parametrize("device", ["cuda", "cuda:0", "cuda:7"])
def test_a_cuda_device_that_is_not_there_is_named(device: str) -> None:
    with pytest.raises(ConfigError, match=r"run\.device=cuda:\d: this machine has 0 CUDA devices"):
        choose_machine(RunConfig(device=device))


@without_mps
def test_mps_where_there_is_none_is_named() -> None:
    with pytest.raises(ConfigError, match=r"run\.device=mps: this machine has none; use auto"):
        choose_machine(RunConfig(device="mps"))
