"""The kernels for training compute what torch computes."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from tests.models.test_transformer import layout_of
from transduce.nn.linear import linear_relu
from transduce.nn.mixers.key_ranges import KeyRanges

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),
]

SRC, TGT = [3, 64, 1, 17, 130, 40], [5, 33, 2, 90, 64, 1]
# Relative rounding of a product in each type, with a margin for the order of sums.
TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 3e-2}


def normal(*shape: int, dtype: torch.dtype, seed: int = 0) -> Tensor:
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(shape, generator=generator, device="cuda", dtype=dtype).requires_grad_()


def assert_same(ours: Tensor, theirs: Tensor, inputs: list[Tensor], exact: list[Tensor]) -> None:
    """Compare outputs and gradients of inputs with those in float64."""
    tolerance = TOLERANCE[inputs[0].dtype]
    upstream = torch.randn_like(ours)
    gradients = torch.autograd.grad(ours, inputs, upstream)
    expected = torch.autograd.grad(theirs, exact, upstream.double())
    for ours_, theirs_ in zip((ours, *gradients), (theirs, *expected), strict=True):
        scale = theirs_.abs().max().item()
        assert_close(ours_.double(), theirs_, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("width", [16, 24, 64, 128])
@pytest.mark.parametrize("kind", ["src", "tgt", "cross"])
@pytest.mark.parametrize("together", [True, False])
def test_packed_attention_is_attention_under_a_mask(
    dtype: torch.dtype, width: int, kind: str, *, together: bool
) -> None:
    from transduce.nn.kernels.packed_attention import attend_packed

    layout = layout_of(SRC, TGT, rest=21)
    ranges = {"src": layout.src_to_src, "tgt": layout.tgt_to_tgt, "cross": layout.tgt_to_src}[kind]
    causal = kind == "tgt"
    t, s = ranges.first.size(0), ranges.seen_first.size(0)
    if not together:
        groups = [(t, 1), (s, 1), (s, 1)]
    elif kind == "cross":
        groups = [(t, 1), (s, 2)]
    else:
        groups = [(t, 3)]
    packed = [normal(n, m, 2, width, dtype=dtype, seed=i) for i, (n, m) in enumerate(groups)]
    exact = [x.detach().double().requires_grad_() for x in packed]
    q, k, v = (x.transpose(0, 1)[None] for part in exact for x in part.unbind(1))
    mask = ranges.allowed().cuda()
    if causal:
        mask &= torch.ones(t, s, dtype=torch.bool, device="cuda").tril()
    has_keys = (ranges.first < ranges.end).cuda()[:, None]
    theirs = F.scaled_dot_product_attention(q, k, v, mask) * has_keys  # [1, h, T, d_v]
    bounds = (ranges.first, ranges.end, ranges.seen_first, ranges.seen_end)
    on_device = KeyRanges(*(x.cuda().contiguous() for x in bounds))
    ours = attend_packed(packed, on_device, causal=causal)  # [T, h, d_v]
    assert_same(ours, theirs[0].transpose(0, 1), packed, exact)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("p_drop", [0.0, 0.25])
@pytest.mark.parametrize("width", [48, 512])
def test_dropout_sum_and_norm_in_one_kernel_are_the_three(
    dtype: torch.dtype, p_drop: float, width: int
) -> None:
    from transduce.nn.kernels.norm import drop_add_norm

    norm = nn.LayerNorm(width, device="cuda")
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    x, y = (normal(1, 37, width, dtype=dtype, seed=seed) for seed in (1, 2))
    torch.manual_seed(5)
    ours = drop_add_norm(x, y, norm, p_drop=p_drop)
    neutral = nn.LayerNorm(width, device="cuda")  # of zeros and ones: above 0 where kept
    torch.manual_seed(5)
    drawn = drop_add_norm(torch.zeros_like(y), torch.ones_like(y), neutral, p_drop=p_drop)
    kept = drawn > 0 if p_drop else torch.ones_like(drawn, dtype=torch.bool)
    exact = [tensor.detach().double().requires_grad_() for tensor in (x, y, norm.weight, norm.bias)]
    total = exact[0] + exact[1] * kept / (1 - p_drop)
    theirs = F.layer_norm(total, (width,), exact[2], exact[3], norm.eps)
    assert_same(ours, theirs, [x, y, norm.weight, norm.bias], exact)


@pytest.mark.parametrize("p_drop", [0.1, 0.5])
def test_dropout_has_the_right_rate_and_independent_draws(p_drop: float) -> None:
    from transduce.nn.kernels.norm import drop_add_norm

    norm = nn.LayerNorm(256, device="cuda")
    zeros, ones = torch.zeros(1, 4096, 256, device="cuda"), torch.ones(1, 4096, 256, device="cuda")
    masks = torch.stack([drop_add_norm(zeros, ones, norm, p_drop=p_drop) < 0 for _ in range(4)])
    count = masks[0].numel()
    deviation = (p_drop * (1 - p_drop) / count) ** 0.5
    assert (masks.double().mean(dim=(1, 2, 3)) - p_drop).abs().max() < 5 * deviation
    both = (masks[:-1] & masks[1:]).double().mean(dim=(1, 2, 3))  # independent draws
    shifted = (masks[:, :, :, 1:] & masks[:, :, :, :-1]).double().mean(dim=(1, 2, 3))
    below = (masks[:, :, 1:] & masks[:, :, :-1]).double().mean(dim=(1, 2, 3))
    for together in (both, shifted, below):
        assert (together - p_drop**2).abs().max() < 5 * (p_drop**2 / count) ** 0.5


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_a_product_with_relu_is_the_product_and_then_relu(dtype: torch.dtype) -> None:
    layer = nn.Linear(48, 96, device="cuda", dtype=dtype)
    x = normal(2, 19, 48, dtype=dtype)
    exact = [tensor.detach().double().requires_grad_() for tensor in (x, layer.weight, layer.bias)]
    theirs = F.linear(*exact).relu()
    assert_same(linear_relu(x, layer), theirs, [x, layer.weight, layer.bias], exact)
    with torch.inference_mode():
        assert_close(
            linear_relu(x, layer).double(), theirs, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype]
        )
