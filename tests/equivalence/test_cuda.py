"""On a CUDA device the model computes what it computes on the CPU."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tests.drawing import VOCAB_SIZE, random_ids, transformer
from transduce.models.transformer.model import Transformer
from transduce.models.transformer.settings import TransformerConfig
from transduce.nn.mixers.attention import attend_fused, attend_reference
from transduce.text.special_ids import PAD_ID

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    # Advice, not errors: about a thread's first use of the device, and about exact float32.
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),
    pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores"),
]

LENGTHS = [17, 1, 9, 32]
# Relative rounding of a product in each type, with a margin for the order of sums.
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


def small_model(**changes: object) -> Transformer:
    shape = {
        "vocab_size": VOCAB_SIZE,
        "n_layers": 2,
        "d_model": 64,
        "d_ff": 128,
        "h": 4,
        "p_drop": 0.0,
    }
    return transformer(TransformerConfig.model_validate(shape | changes))


def sentences() -> tuple[Tensor, Tensor]:
    return random_ids(LENGTHS, seed=1).cuda(), random_ids(LENGTHS[::-1], seed=2).cuda()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("d_v", [32, 16])
@pytest.mark.parametrize(("causal", "masked"), [(False, False), (False, True), (True, False)])
def test_fused_attention_is_eq_1(dtype: torch.dtype, d_v: int, causal: bool, masked: bool) -> None:
    generator = torch.Generator("cuda").manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, device="cuda", dtype=dtype)

    q, k, v = normal(4, 3, 24, 32), normal(4, 3, 24, 32), normal(4, 3, 24, d_v)
    for tensor in (q, k, v):
        tensor.requires_grad_()
    upstream = normal(4, 3, 24, d_v)
    allowed = torch.rand(4, 1, 1, 24, generator=generator, device="cuda") < 0.7
    allowed[..., 0] = True
    mask = allowed if masked else None
    reference, _ = attend_reference(q, k, v, allowed=mask, causal=causal)
    fused = attend_fused(q, k, v, allowed=mask, causal=causal)
    ours = (reference, *torch.autograd.grad(reference, (q, k, v), upstream))
    theirs = (fused, *torch.autograd.grad(fused, (q, k, v), upstream))
    for expected, found in zip(ours, theirs, strict=True):
        assert (found - expected).float().norm() <= TOLERANCE[dtype] * expected.float().norm()


def test_cuda_computes_what_the_cpu_computes() -> None:
    model = small_model()
    src, tgt = sentences()
    on_cpu = model(src.cpu(), tgt.cpu())
    assert_close(model.cuda()(src, tgt).cpu(), on_cpu, rtol=0, atol=1e-5)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_cached_steps_equal_uncached_decoding(norm: str) -> None:
    model = small_model(norm=norm).cuda().eval()
    src, tgt = sentences()
    whole = model(src, tgt)
    state = model.start(model.encode(src), hypotheses=3, max_steps=tgt.size(1))
    for t in range(tgt.size(1)):
        position = torch.tensor([t], device="cuda")
        ids = tgt[:, t, None].expand(-1, 3)
        logits = model.step(ids, state, position=position, reach=min(t + 3, tgt.size(1)))
        for beam in range(3):
            assert_close(logits[:, beam], whole[:, t], rtol=0, atol=1e-5)
        beams = torch.tensor([t % 3, 0, 2], device="cuda")
        state.select(beams.expand(len(LENGTHS), -1))


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_compiled_training_forward_is_one_graph_with_the_same_result(
    autocast: bool, norm: str
) -> None:
    torch.compiler.reset()
    model = small_model(norm=norm).cuda()
    src, tgt = sentences()
    compiled = torch.compile(model, fullgraph=True)
    results = []
    for run, rounds in ((model, False), (model, autocast), (compiled, autocast)):
        model.zero_grad()
        with torch.autocast("cuda", torch.bfloat16, enabled=rounds):
            logits = run(src, tgt).float()
        torch.autograd.backward(logits.square().mean())
        gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        results.append([logits.detach(), *gradients])
    for exact, eager, graph in zip(*results, strict=True):
        # Small gradients in bfloat16 differ by some percent from kernel to kernel.
        assert (graph - exact).norm() <= 2 * (eager - exact).norm() + 1e-5 * exact.norm()


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_a_sentence_of_only_padding_gives_no_nan(dtype: torch.dtype) -> None:
    model = small_model().cuda()
    src, tgt = sentences()
    src[2] = PAD_ID
    with torch.autocast("cuda", dtype, enabled=dtype is torch.bfloat16):
        logits = model(src, tgt).float()
    torch.autograd.backward(logits.square().mean())
    assert logits.isfinite().all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
