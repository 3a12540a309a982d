"""The Transformer with what came after the paper: other positions, norms and feed-forward nets."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from tests.drawing import POSITIONS, VOCAB_SIZE, random_ids, seeds, transformer
from transduce.config.presets import preset_named
from transduce.errors import ConfigError
from transduce.models.transformer.model import Transformer
from transduce.models.transformer.settings import TransformerConfig
from transduce.nn.feed_forward import ACTIVATIONS, FeedForward, GatedFeedForward, make_feed_forward
from transduce.nn.mixers.attention import MultiHeadAttention, attend_reference
from transduce.nn.mixers.positions import distance_buckets

SMALL: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "n_layers": 2,
    "d_model": 8,
    "d_ff": 12,
    "h": 2,
    "max_positions": 32,
}


def model(*, seed: int = 0, **changes: Any) -> Transformer:
    return transformer(TransformerConfig(**(SMALL | changes)), seed=seed).double().eval()


def scores(of: Transformer, src: Tensor, tgt: Tensor) -> Tensor:
    logits: Tensor = of(src, tgt)
    return logits


@pytest.mark.parametrize("positions", POSITIONS)
def test_the_order_of_the_source_counts_unless_there_are_no_positions(positions: str) -> None:
    of = model(positions=positions)
    for name, weights in of.named_parameters():
        if name.endswith("term.scores"):  # they start at 0, where every order is the same
            torch.nn.init.normal_(weights)
    src, tgt = random_ids([6], seed=1), random_ids([4], seed=2)
    found, swapped = scores(of, src, tgt), scores(of, src[:, [1, 0, 2, 5, 4, 3]], tgt)
    if positions == "none":
        assert_close(found, swapped, rtol=0, atol=1e-12)
    else:
        assert (found - swapped).abs().max() > 1e-6


@pytest.mark.parametrize("positions", ["relative", "t5", "alibi", "rotary", "none"])
def test_positions_of_attention_take_no_weights_of_the_embedding(positions: str) -> None:
    names = [name for name, _ in model(positions=positions).named_parameters()]
    assert not [name for name in names if name.startswith("positions")]
    own = {"relative": "term.keys", "t5": "term.scores"}.get(positions)
    ending = [name for name in names if "term." in name]
    # Each self-attention has its own; cross-attention has none.
    layers = [f"{stack}.{n}" for stack in ("encoder", "decoder") for n in (0, 1)]
    assert ending == ([f"{layer}.self_attention.{own}" for layer in layers] if own else [])


@pytest.mark.parametrize("positions", ["sinusoidal", "alibi", "rotary", "relative", "t5", "none"])
def test_a_longer_table_changes_nothing(positions: str) -> None:
    short, long = (model(positions=positions, max_positions=n) for n in (32, 64))
    long.load_state_dict(short.state_dict())
    src, tgt = random_ids([9, 4], seed=1), random_ids([3, 8], seed=2)
    assert_close(scores(short, src, tgt), scores(long, src, tgt), rtol=0, atol=1e-12)


@given(
    n_buckets=st.sampled_from([8, 16, 32]),
    max_distance=st.integers(20, 200),
    causal=st.booleans(),
)
def test_buckets_are_those_of_t5(n_buckets: int, max_distance: int, causal: bool) -> None:
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    distances = torch.arange(-max_distance, max_distance + 1)
    theirs = t5.T5Attention._relative_position_bucket(
        distances, bidirectional=not causal, num_buckets=n_buckets, max_distance=max_distance
    )
    ours = distance_buckets(distances, n_buckets, max_distance=max_distance, causal=causal)
    # They divide logarithms in float32: at the edge of a bucket, rounding decides.
    differs = (ours != theirs).nonzero().flatten()
    per_side = n_buckets if causal else n_buckets // 2
    exact = per_side // 2
    for place in differs.tolist():
        steps = abs(distances[place].item())
        spaced = math.log(steps / exact) / math.log(max_distance / exact) * (per_side - exact)
        assert abs(spaced - round(spaced)) < 1e-5


@given(d_ff=st.integers(1, 9), name=st.sampled_from(["swiglu", "geglu"]), seed=seeds)
def test_a_gate_multiplies_the_other_projection(d_ff: int, name: Any, seed: int) -> None:
    torch.manual_seed(seed)
    network, x = make_feed_forward(6, d_ff, activation=name).double(), torch.randn(2, 3, 6).double()
    assert isinstance(network, GatedFeedForward)
    gate, up = x @ network.w_g.weight.T, x @ network.w_1.weight.T
    if name == "swiglu":
        opened = gate * torch.sigmoid(gate)
    else:
        opened = gate * 0.5 * (1 + torch.erf(gate / math.sqrt(2)))
    assert_close(network(x), (opened * up) @ network.w_2.weight.T, rtol=0, atol=1e-12)


def test_relu_squared_is_eq_2_with_a_square() -> None:
    network, x = make_feed_forward(6, 9, activation="relu2").double(), torch.randn(2, 6).double()
    assert isinstance(network, FeedForward)
    inner = (x @ network.w_1.weight.T + network.w_1.bias).clamp(min=0) ** 2
    assert_close(network(x), inner @ network.w_2.weight.T + network.w_2.bias, rtol=0, atol=1e-12)
    assert ACTIVATIONS["relu2"](torch.tensor([-2.0, 3.0])).tolist() == [0.0, 9.0]


@given(t=st.integers(1, 5), s=st.integers(1, 5), seed=seeds)
def test_normalised_queries_and_keys_have_a_mean_square_of_1(t: int, s: int, seed: int) -> None:
    torch.manual_seed(seed)
    of = MultiHeadAttention(6, 2, d_k=4, d_v=3, qk_norm=True).double()
    of.init_weights()
    x, memory = torch.randn(1, t, 6).double(), torch.randn(1, s, 6).double()
    q, k = (
        (rows @ layer.weight.T).view(1, -1, 2, 4).transpose(1, 2)
        for rows, layer in ((x, of.w_q), (memory, of.w_k))
    )
    v = (memory @ of.w_v.weight.T).view(1, -1, 2, 3).transpose(1, 2)
    q, k = (y / (y.square().mean(dim=-1, keepdim=True) + 1e-6).sqrt() for y in (q, k))
    context = attend_reference(q, k, v)[0].transpose(1, 2).flatten(2)
    assert_close(of(x, memory), context @ of.w_o.weight.T, rtol=0, atol=1e-12)


def test_rms_norm_divides_by_the_root_of_the_mean_square() -> None:
    layer = model(norm_kind="rms", norm="post").encoder[0].add_norm_1
    x, y = torch.randn(2, 3, 8).double(), torch.randn(2, 3, 8).double()
    total = x + y
    mean_square = total.square().mean(dim=-1, keepdim=True)
    assert_close(layer.join(x, y), total / (mean_square + 1e-6).sqrt(), rtol=0, atol=1e-12)
    assert list(layer.state_dict()) == ["norm.weight"]


def test_a_pre_norm_stack_ends_with_a_norm_of_the_same_kind() -> None:
    of = model(norm_kind="rms", norm="pre")
    assert isinstance(of.encoder_norm, torch.nn.RMSNorm)
    assert isinstance(of.decoder_norm, torch.nn.RMSNorm)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"positions": "rotary", "d_k": 5},
            r"model\.d_k=5 is odd, but rotary positions turn pairs",
        ),
        ({"activation": "geglu", "experts": 4}, r"activation=geglu has a gate, but experts"),
        ({"positions": "rotery"}, "positions"),
    ],
)
def test_what_does_not_go_together_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        preset_named("tiny").with_changes({"model": changes})


@pytest.mark.parametrize(
    ("changes", "exports"),
    [
        ({"positions": "relative"}, set()),
        ({"positions": "t5"}, set()),
        ({"positions": "alibi"}, set()),
        ({"positions": "rotary"}, {"ctranslate2"}),
        ({"positions": "none"}, {"ctranslate2"}),
        ({"norm_kind": "rms"}, {"ctranslate2"}),
        ({"qk_norm": True}, set()),
        ({"activation": "relu2"}, set()),
        ({"activation": "swiglu"}, {"ctranslate2"}),
    ],
)
def test_a_model_names_the_formats_that_can_express_it(
    changes: dict[str, Any], exports: set[str]
) -> None:
    abilities = model(**changes).abilities
    assert abilities.exports == exports
    assert abilities.packed_sequences
    assert abilities.recorded_step


def test_the_papers_model_is_untouched_by_the_new_settings() -> None:
    of = model()
    assert of.abilities.exports == {"ctranslate2", "huggingface"}
    assert sum(p.numel() for p in of.parameters()) == sum(
        p.numel() for p in model(norm_kind="layer", qk_norm=False, activation="relu").parameters()
    )
    assert F.relu is ACTIVATIONS["relu"]
