"""On a CUDA device, every mixer computes what it computes on the CPU, also in recorded steps."""

import copy

import pytest
import torch
from torch.testing import assert_close

from tests.drawing import VOCAB_SIZE, random_ids, transformer
from transduce.hardware.cuda_graphs import record
from transduce.models.transformer.mixer_rules import DECODER_MIXERS, ENCODER_MIXERS
from transduce.models.transformer.model import Transformer
from transduce.models.transformer.settings import TransformerConfig

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),
]

MAX_STEPS = 12
SHARED = {"h": 4, "kv_heads": 2, "positions": "rotary"}


def twins(name: str, **changes: object) -> tuple[Transformer, Transformer]:
    """Build a model on the device in float32, and the same on the CPU in float64."""
    sizes = {"vocab_size": VOCAB_SIZE, "n_layers": 2, "d_model": 32, "d_ff": 48, "window": 8}
    mixers = {"encoder_mixers": name, "cross_mixer": "linformer"} if name == "linformer" else {}
    if name in DECODER_MIXERS:
        mixers["decoder_mixers"] = name
    config = TransformerConfig.model_validate(
        sizes | SHARED | {"encoder_mixers": name, "max_positions": 256, "low_rank": 8} | mixers
        | {"random_features": 32} | changes
    )  # fmt: skip
    model = transformer(config, seed=1).eval()
    return copy.deepcopy(model).cuda(), model.double()


@pytest.mark.parametrize("name", ENCODER_MIXERS)
def test_logits_and_gradients_are_those_of_the_cpu(name: str) -> None:
    ours, exact = twins(name)
    src, tgt = random_ids([200, 7], seed=1), random_ids([90, 150], seed=2)
    found, expected = ours(src.cuda(), tgt.cuda()), exact(src, tgt)
    real = [found[row, :n].double().cpu() for row, n in enumerate((90, 150))]
    for row, n in enumerate((90, 150)):
        assert_close(real[row], expected[row, :n], rtol=0, atol=2e-4)
    (found[0, :90].square().mean() + found[1].square().mean()).backward()
    (expected[0, :90].square().mean() + expected[1].square().mean()).backward()
    for (label, mine), its in zip(ours.named_parameters(), exact.parameters(), strict=True):
        assert mine.grad is not None, label
        assert its.grad is not None, label
        scale = its.grad.abs().max().item()
        assert_close(mine.grad.double().cpu(), its.grad, rtol=0, atol=2e-3 * scale + 1e-7)


@pytest.mark.parametrize("name", ENCODER_MIXERS)
def test_it_trains_in_bfloat16(name: str) -> None:
    ours, _ = twins(name)
    src, tgt = random_ids([60, 7], seed=1), random_ids([40, 50], seed=2)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = ours.train()(src.cuda(), tgt.cuda()).float().square().mean()
    loss.backward()
    assert loss.isfinite()
    for label, weight in ours.named_parameters():
        assert weight.grad is not None, label
        assert weight.grad.isfinite().all(), label


@pytest.mark.parametrize("name", ENCODER_MIXERS)
@torch.inference_mode()
def test_recorded_steps_are_the_whole_sequence(name: str) -> None:
    ours, exact = twins(name)
    src, k = random_ids([7, 1, 4], seed=2), 4
    state = ours.start(ours.encode(src.cuda()), hypotheses=k, max_steps=MAX_STEPS)
    position = torch.zeros(1, dtype=torch.long, device="cuda")
    last_ids, beams = (torch.zeros(3, k, dtype=torch.long, device="cuda") for _ in range(2))
    logits = torch.zeros(3, k, VOCAB_SIZE, device="cuda")

    def step() -> None:
        logits.copy_(ours.step(last_ids, state, position=position, reach=MAX_STEPS))
        state.select(beams)
        position.add_(1)

    read, graph = torch.zeros(3, k, 0, dtype=torch.long), None
    for time in range(MAX_STEPS):
        ids = random_ids([k] * 3, seed=time)
        read = torch.cat([read, ids[:, :, None]], dim=2)
        chosen = torch.arange(3 * k).view(3, k) * (time + 2) // 3 % k
        last_ids.copy_(ids)
        beams.copy_(chosen)
        if time == 0:
            step()  # loads the kernels, which must happen before recording
        else:
            graph = graph or record(step, torch.cuda.Stream())  # type: ignore[no-untyped-call]
            graph.replay()
        for sentence in range(3):
            sources = src[sentence].expand(k, -1)
            whole = exact(sources, read[sentence])[:, -1]
            assert_close(logits[sentence].double().cpu(), whole, rtol=0, atol=1e-3)
        read = read.gather(1, chosen[:, :, None].expand_as(read))
