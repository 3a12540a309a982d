"""ConvS2S against the same model in plain torch, and what Gehring et al. (2017) say of it."""

import math
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from tests.command import Command
from tests.drawing import VOCAB_SIZE, padded_ids, random_ids, seeds
from tests.models.every_kind import DRAWN
from transduce.analysis.cost import cost_of
from transduce.config.load import load_config
from transduce.config.schema import Config
from transduce.errors import ConfigError
from transduce.models.build import build_model
from transduce.models.conv_s2s.model import ConvS2S, scale_gradient
from transduce.models.conv_s2s.settings import ConvS2SConfig, parse_layers
from transduce.models.folder import LoadedModel, load_model, save_model
from transduce.nn.weight_norm import WeightNormLinear
from transduce.text.special_ids import PAD_ID
from transduce.text.tokenizer import Tokenizer
from transduce.translation.inference import prepare_for_inference

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def plain() -> Any:
    """The same architecture, written in `nn.Conv1d`, `weight_norm` and `F.glu`."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        from plain_conv_s2s import PlainConvS2S
    finally:
        sys.path.remove(str(BENCHMARKS))
    return PlainConvS2S


def build(config: ConvS2SConfig, *, seed: int = 0) -> ConvS2S:
    model = build_model(config, seed=seed).double().eval()
    assert isinstance(model, ConvS2S)
    return model


def copy_weights(ours: ConvS2S, theirs: Any) -> list[tuple[Tensor, Tensor]]:
    """Give the plain model our weights; return the pairs of parameters that share a shape."""
    pairs: list[tuple[Tensor, Tensor]] = [
        (ours.embedding.weight, theirs.embedding.weight),
        (ours.src_positions.table, theirs.src_positions.weight),
        (ours.tgt_positions.table, theirs.tgt_positions.weight),
    ]

    def pair(mine: nn.Module, its: Any, *, kernel: int = 1) -> None:
        if isinstance(mine, nn.Identity):
            return
        assert isinstance(mine, WeightNormLinear)
        stored = its.parametrizations["weight"]
        v = mine.v.view(mine.out_features, kernel, -1)
        with torch.no_grad():
            stored.original0.copy_(mine.g.view_as(stored.original0))
            stored.original1.copy_(v.transpose(1, 2).reshape(stored.original1.shape))
        pairs.append((mine.bias, its.bias))

    for name in ("encoder_in", "encoder_out", "decoder_in", "decoder_out"):
        pair(getattr(ours, name), getattr(theirs, name))
    for side in ("encoder", "decoder"):
        for index, layer in enumerate(getattr(ours, side)):
            convolution = layer.convolution.convolution
            its = getattr(theirs, f"{side}_convolutions")[index]
            pair(convolution.projection, its, kernel=convolution.kernel)
            pair(layer.residual, getattr(theirs, f"{side}_residuals")[index])
    for index, layer in enumerate(ours.decoder):
        pair(layer.w_d, theirs.queries[index])
        pair(layer.w_c, theirs.contexts[index])
    with torch.no_grad():
        for mine, its in pairs:
            its.copy_(mine)
    return pairs


@settings(max_examples=15)
@given(config=DRAWN["conv_s2s"], data=st.data(), seed=seeds)
def test_it_equals_plain_torch_with_its_gradients(
    plain: Any, config: ConvS2SConfig, data: st.DataObject, seed: int
) -> None:
    model, other = build(config, seed=seed), plain(config).double().eval()
    with torch.no_grad():  # lengths that are not those of v, and biases that are not 0
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.rand_like(parameter))
    pairs = copy_weights(model, other)
    src, tgt = (data.draw(padded_ids(sentences=2)) for _ in range(2))
    found, expected = model(src, tgt), other(src, tgt)
    real = tgt != PAD_ID
    assert_close(found[real], expected[real], rtol=0, atol=1e-10)
    weights = torch.randn_like(found) * real[:, :, None]
    for logits in (found, expected):
        torch.autograd.backward((logits * weights).sum())
    for mine, its in pairs:
        assert_close(mine.grad, its.grad, rtol=1e-9, atol=1e-9)


def test_new_weights_have_the_spread_of_section_3_5() -> None:
    model = build(ConvS2SConfig(vocab_size=1000, d_model=64, layers="1x128k3", p_drop=0.2))
    keep = 1 - 0.2
    layer = model.decoder[0]
    spreads: list[tuple[Tensor, float]] = [
        (model.embedding.weight, 0.1),
        (model.src_positions.table, 0.1),
        (model.encoder_in.weight, math.sqrt(keep / 64)),
        (layer.convolution.convolution.projection.weight, math.sqrt(4 * keep / (3 * 128))),
        (layer.w_d.weight, math.sqrt(1 / 128)),
        (layer.w_c.weight, math.sqrt(1 / 64)),
    ]
    for weight, spread in spreads:
        assert weight.std().item() == pytest.approx(spread, rel=0.05)


def test_the_gradient_is_scaled_and_the_value_is_not() -> None:
    x = torch.randn(3, requires_grad=True)
    y = scale_gradient(x, 0.25)
    assert torch.equal(x, y)
    torch.autograd.backward(y.sum())
    assert x.grad is not None
    assert torch.equal(x.grad, torch.full((3,), 0.25))


def test_each_layer_attends_to_real_tokens_alone() -> None:
    model = build(ConvS2SConfig(vocab_size=VOCAB_SIZE, d_model=8, layers="3x6k3"))
    src, tgt = random_ids([7, 3], seed=1), random_ids([5, 4], seed=2)
    maps = model.attention_maps(src, tgt)
    assert maps.encoder is None
    assert maps.decoder is None
    assert maps.cross.shape == (3, 2, 1, 5, 7)
    assert_close(maps.cross.sum(dim=-1), torch.ones(3, 2, 1, 5).double())
    assert (maps.cross[:, 1, :, :, 3:] == 0).all()


def test_folded_and_packed_weights_score_the_same() -> None:
    config = ConvS2SConfig(vocab_size=VOCAB_SIZE, d_model=8, layers="1x6k3+1x5k1")
    src, ids = random_ids([7, 3], seed=1), torch.full((2, 3), 5)
    before = build_model(config).eval()
    after = prepare_for_inference(build_model(config), precision="float32")
    scores = []
    for model in (before, after):
        with torch.inference_mode():
            state = model.start(model.encode(src), hypotheses=3, max_steps=4)
            scores.append(model.step(ids, state, position=torch.tensor([0]), reach=1))
    assert_close(*scores)


def test_a_folder_loads_with_the_same_weights(tmp_path: Path) -> None:
    config = Config(model=ConvS2SConfig(vocab_size=VOCAB_SIZE, d_model=8, layers="2x6k3"))
    words = " ".join(f"w{n}" for n in range(VOCAB_SIZE - 4))
    tokenizer = Tokenizer.learn([words], kind="whitespace", vocab_size=VOCAB_SIZE)
    model = build_model(config.model, seed=4).eval()
    save_model(tmp_path, LoadedModel(model, config, tokenizer))
    src, tgt = random_ids([7, 3], seed=1), random_ids([9, 2], seed=2)
    assert torch.equal(load_model(tmp_path).model(src, tgt), model(src, tgt))


def test_the_published_shape_has_the_published_layers() -> None:
    shape = load_config("conv_s2s").model
    assert isinstance(shape, ConvS2SConfig)
    layers = [(512, 3)] * 10 + [(768, 3)] * 3 + [(2048, 1)] * 2
    assert parse_layers(shape.encoder_layers) == parse_layers(shape.decoder_layers) == layers
    assert load_config("conv_s2s").training.clip_norm == 0.1


@given(config=DRAWN["conv_s2s"], length=st.integers(1, 9))
@settings(max_examples=4)
def test_operations_are_two_for_each_weight_and_each_pair_attended(
    config: ConvS2SConfig, length: int
) -> None:
    model = build_model(config)
    projections = [m for m in model.modules() if isinstance(m, WeightNormLinear)]
    products = sum(p.in_features * p.out_features for p in projections)
    depth = len(parse_layers(config.decoder_layers))
    attention = depth * 2 * length * config.d_model
    expected = 2 * (products + attention + config.d_model * config.vocab_size)
    cost = cost_of(config, length=length)
    assert cost.operations_per_token == pytest.approx(expected)
    assert cost.cache.per_tgt_token == 0


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ("512k3", "'512k3' is not a group of layers: write 10x512k3"),
        ("2x8k3+", "'' is not a group of layers"),
        ("2x8k2", "'2x8k2' has a kernel without a centre: use an odd number"),
        ("0x8k3", "'0x8k3' is out of bounds: 1 to 1,000 layers"),
        ("9999x8k3", "'9999x8k3' is out of bounds"),
        ("600x8k3+600x8k3", "'600x8k3+600x8k3' has more than 1,000 layers"),
    ],
)
def test_wrong_layers_are_one_clear_line(layers: str, message: str, command: Command) -> None:
    with pytest.raises(ConfigError) as raised:
        load_config("conv_s2s_small", [f"model.layers={layers}"])
    assert message in str(raised.value)
    if layers == "512k3":
        change = ("--set", f"model.layers={layers}")
        assert message in command("describe", "conv_s2s_small", *change).mistake()


def test_it_is_described(command: Command) -> None:
    described = command("describe", "conv_s2s_small")
    assert described.code == 0, described.err
    assert described.out.startswith("conv_s2s_small: ConvS2S, 6+6 layers (6x256k3), d_model 256")
    assert "conv_s2s_small" in command("presets").out
