"""On a CUDA device, recurrent models compute what they compute on the CPU."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tests.drawing import VOCAB_SIZE, random_ids
from transduce.models.build import build_model
from transduce.models.rnn.settings import RNNConfig
from transduce.nn.initialise import initialise
from transduce.nn.mixers.recurrence import CellName, Recurrence

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),
]
every_cell = pytest.mark.parametrize("cell", ["lstm", "gru"])


@pytest.fixture(autouse=True)
def full_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """By torch's default, cuDNN multiplies float32 in TF32, which has 10 bits."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


every_decoder = pytest.mark.parametrize("decoder", ["bahdanau", "input_feeding", "luong", "gnmt"])


def config_of(cell: str, decoder: str, **more: object) -> RNNConfig:
    shape = {"vocab_size": VOCAB_SIZE, "d_model": 16, "d_hidden": 24, "n_layers": 3, "p_drop": 0.0}
    return RNNConfig.model_validate(shape | {"cell": cell, "decoder": decoder} | more)


def gradients_of(config: RNNConfig, device: str, autocast: torch.dtype | None) -> list[Tensor]:
    """Return the logits and the gradients of all weights, on the CPU."""
    model = build_model(config, seed=1).to(device).train()
    src, tgt = (random_ids(lengths, seed=2).to(device) for lengths in ([7, 3, 9], [9, 2, 5]))
    with torch.autocast(device, dtype=autocast, enabled=autocast is not None):
        logits = model(src, tgt)
    weights = torch.linspace(-1, 1, logits.numel(), device=device).view_as(logits)
    torch.autograd.backward((logits.float() * weights).sum())
    found = [parameter.grad for parameter in model.parameters()]
    return [logits.detach().float().cpu(), *(g.cpu() for g in found if g is not None)]


@every_cell
@every_decoder
def test_outputs_and_gradients_are_those_of_the_cpu(cell: str, decoder: str) -> None:
    config = config_of(cell, decoder)
    found, expected = gradients_of(config, "cuda", None), gradients_of(config, "cpu", None)
    for mine, its in zip(found, expected, strict=True):
        assert_close(mine, its, rtol=0, atol=1e-3 * its.abs().max().item())


@every_cell
@every_decoder
def test_bfloat16_changes_outputs_and_gradients_by_its_rounding_alone(
    cell: str, decoder: str
) -> None:
    """One rounding changes a number by at most 0.4 %; the gradient as a whole averages many."""
    config = config_of(cell, decoder)
    found, expected = (
        gradients_of(config, "cuda", torch.bfloat16),
        gradients_of(config, "cpu", None),
    )
    for mine, its in zip(found, expected, strict=True):
        assert (mine - its).norm() <= 0.05 * its.norm()
    mine, its = (
        torch.cat([gradient.flatten() for gradient in all_[1:]]) for all_ in (found, expected)
    )
    assert (mine - its).norm() <= 0.02 * its.norm()


@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@every_cell
@every_decoder
def test_a_step_of_training_never_waits_for_the_device(cell: str, decoder: str) -> None:
    model = build_model(config_of(cell, decoder, p_drop=0.1)).to("cuda").train()
    src, tgt = (random_ids([7, 3], seed=seed).to("cuda") for seed in (1, 2))
    model.training_states(src, tgt)  # libraries may wait at their first call
    try:
        torch.cuda.set_sync_debug_mode("error")
        model.training_states(src, tgt).states.sum().backward()  # type: ignore[no-untyped-call]
    finally:
        torch.cuda.set_sync_debug_mode("default")


@every_cell
def test_the_weights_lie_as_cudnn_reads_them(
    cell: CellName, recwarn: pytest.WarningsRecorder
) -> None:
    layer = Recurrence(8, 16, cell=cell)
    initialise(layer)
    layer.to("cuda").train()
    with torch.autocast("cuda", torch.bfloat16):
        outputs = layer(torch.randn(4, 5, 8, device="cuda"))
    assert outputs.dtype == torch.bfloat16
    assert not [warning for warning in recwarn if "contiguous chunk" in str(warning.message)]
