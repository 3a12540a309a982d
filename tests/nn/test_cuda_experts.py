"""Experts on a GPU: our kernel, compiled and recorded training, recorded search steps."""

from typing import Any

import pytest
import torch
from torch.testing import assert_close

from tests.drawing import VOCAB_SIZE, random_ids, transformer
from tests.training.test_cuda import BF16, CPU, CUDA, losses
from transduce.hardware.cuda_graphs import record
from transduce.models.transformer.settings import TransformerConfig
from transduce.nn import mixture
from transduce.nn.initialise import initialise
from transduce.nn.mixture import MixtureOfExperts
from transduce.search.beam import Beam, beam_search
from transduce.search.recorded import RecordedBeamSearch
from transduce.training.step.machine import Machine

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf"),
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),
    pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores"),
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
]
TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 2e-2, torch.float64: 1e-12}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("tokens", [1, 5, 64, 1000])
@pytest.mark.parametrize(("d_model", "d_ff", "experts", "k"), [(20, 36, 3, 1), (128, 256, 8, 2)])
def test_inference_is_a_loop_over_experts(
    dtype: torch.dtype, tokens: int, d_model: int, d_ff: int, experts: int, k: int
) -> None:
    torch.manual_seed(0)
    layer = MixtureOfExperts(d_model, d_ff, experts=experts, per_token=k, capacity=1.0)
    initialise(layer)
    torch.nn.init.normal_(layer.w_gate)
    torch.nn.init.normal_(layer.b_1)
    x = torch.randn(1, tokens, d_model).to(CUDA, dtype)
    layer = layer.to(CUDA, dtype).eval()
    with torch.inference_mode():
        found = layer(x)
        graph = record(lambda: layer(x), torch.cuda.Stream())  # type: ignore[no-untyped-call]
        graph.replay()  # it never waits for the host
        expected = layer.cpu().double()(x.cpu().double())
    scale = expected.abs().max().item()
    assert_close(found.cpu().double(), expected, rtol=0, atol=TOLERANCE[dtype] * scale)


EXPERTS = {"experts": 4, "expert_capacity": 1.0}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("machine", [Machine(CUDA), BF16], ids=["float32", "bf16"])
def test_training_is_that_of_the_cpu(
    machine: Machine, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without noise, whose bits differ from device to device."""
    monkeypatch.setattr(mixture, "_noise", torch.zeros_like)
    on_gpu, on_cpu = (
        losses(each, packed=packed, steps=12, model=EXPERTS) for each in (machine, Machine(CPU))
    )
    assert on_gpu == pytest.approx(on_cpu, rel=3e-2)
    assert on_gpu[-1] < on_gpu[0]


def test_training_has_the_same_bits_each_time() -> None:
    runs = [losses(BF16, packed=True, steps=12, model={**EXPERTS, "p_drop": 0.1}) for _ in range(2)]
    assert runs[0] == runs[1]


@pytest.mark.parametrize("score", ["unscaled", "additive"])
def test_training_with_other_scores_is_that_of_the_cpu(score: str) -> None:
    changes = {"attention_score": score}
    packed = score != "additive"
    on_gpu, on_cpu = (
        losses(Machine(device), packed=packed, steps=12, model=changes) for device in (CUDA, CPU)
    )
    assert on_gpu == pytest.approx(on_cpu, rel=1e-3)


@pytest.mark.parametrize(
    "changes", [{"experts": 4}, {"attention_score": "additive"}, {"attention_score": "unscaled"}]
)
def test_recorded_searches_find_what_the_cpu_finds(changes: dict[str, Any]) -> None:
    shape = {"vocab_size": VOCAB_SIZE, "n_layers": 2, "d_model": 32, "d_ff": 64, "h": 2}
    model = transformer(TransformerConfig.model_validate(shape | changes)).eval()
    src, limits = random_ids([7, 3, 5, 1, 6], seed=1), torch.full((5,), 9)
    beam = Beam(size=3)
    expected = beam_search(model, src, beam, max_tokens=limits)
    recorded = RecordedBeamSearch(model.to(CUDA), longest_source=None, max_positions=10**6)
    for _ in range(2):
        found = recorded(src.to(CUDA), beam, max_tokens=limits)
        assert [h[0].ids for h in found] == [h[0].ids for h in expected]
