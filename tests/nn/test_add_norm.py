import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tests.drawing import seeds
from transduce.nn.add_norm import NORM_EPSILON, PostNorm, PreNorm
from transduce.nn.dropout import Dropout
from transduce.nn.feed_forward import FeedForward


@given(seed=seeds, p_drop=st.sampled_from([0.0, 0.1, 0.5]))
def test_post_norm_is_the_papers_formula(seed: int, p_drop: float) -> None:
    torch.manual_seed(seed)
    x, sublayer = torch.randn(2, 5, 8), nn.Linear(8, 8)
    add_norm = PostNorm(8, p_drop=p_drop)
    torch.manual_seed(seed)
    ours = add_norm(x, sublayer)
    torch.manual_seed(seed)
    theirs = F.layer_norm(x + Dropout(p_drop)(sublayer(x)), (8,), eps=NORM_EPSILON)
    assert torch.equal(ours, theirs)


@given(seed=seeds, p_drop=st.sampled_from([0.0, 0.1, 0.5]))
def test_pre_norm_is_its_formula(seed: int, p_drop: float) -> None:
    torch.manual_seed(seed)
    x, sublayer = torch.randn(2, 5, 8), nn.Linear(8, 8)
    add_norm = PreNorm(8, p_drop=p_drop)
    torch.manual_seed(seed)
    ours = add_norm(x, sublayer)
    torch.manual_seed(seed)
    theirs = x + Dropout(p_drop)(sublayer(F.layer_norm(x, (8,), eps=NORM_EPSILON)))
    assert torch.equal(ours, theirs)


def test_layer_norm_has_the_epsilon_of_the_original_implementation() -> None:
    assert PostNorm(8, p_drop=0.0).norm.eps == PreNorm(8, p_drop=0.0).norm.eps == 1e-6


def test_feed_forward_drops_after_the_relu_in_training_only() -> None:
    feed_forward = FeedForward(6, 10, p_drop=0.5)
    x = torch.randn(3, 5, 6)
    torch.manual_seed(0)
    ours = feed_forward(x)
    torch.manual_seed(0)
    inner = Dropout(0.5)(F.relu(feed_forward.w_1(x)))
    assert torch.equal(ours, feed_forward.w_2(inner))
    assert torch.equal(feed_forward.eval()(x), feed_forward.w_2(feed_forward.w_1(x).relu()))


@given(seed=seeds)
def test_feed_forward_is_two_convolutions_of_kernel_size_1(seed: int) -> None:
    torch.manual_seed(seed)
    feed_forward = FeedForward(6, 10).double()
    x = torch.randn(3, 5, 6, dtype=torch.float64)
    inner = F.conv1d(x.mT, feed_forward.w_1.weight[..., None], feed_forward.w_1.bias).relu()
    outer = F.conv1d(inner, feed_forward.w_2.weight[..., None], feed_forward.w_2.bias).mT
    torch.testing.assert_close(feed_forward(x), outer, rtol=0, atol=1e-12)
