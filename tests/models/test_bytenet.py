"""ByteNet: its reach, its unfolding, and what Kalchbrenner et al. (2016) say of it."""

import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from tests.command import Command
from tests.drawing import VOCAB_SIZE, random_ids, seeds
from tests.models.every_kind import DRAWN
from transduce.analysis.cost import cost_of
from transduce.config.load import load_config
from transduce.config.schema import Config
from transduce.errors import InputError
from transduce.models.build import build_model
from transduce.models.bytenet.model import ByteNet, ByteNetBlock
from transduce.models.bytenet.settings import ByteNetConfig
from transduce.models.folder import LoadedModel, save_model
from transduce.nn.initialise import initialise
from transduce.text.special_ids import EOS_ID
from transduce.text.tokenizer import Tokenizer
from transduce.translation.inference import prepare_for_inference


def build(**sizes: float) -> ByteNet:
    config = ByteNetConfig(**({"vocab_size": VOCAB_SIZE, "d_model": 8} | sizes))  # type: ignore[arg-type]
    model = build_model(config).double().eval()
    assert isinstance(model, ByteNet)
    return model


@given(
    kernel=st.sampled_from([1, 3, 5]),
    dilation=st.integers(1, 4),
    causal=st.booleans(),
    seed=seeds,
)
@settings(max_examples=15)
def test_a_block_equals_plain_torch(kernel: int, dilation: int, causal: bool, seed: int) -> None:
    torch.manual_seed(seed)
    block = ByteNetBlock(12, kernel=kernel, dilation=dilation, causal=causal, p_drop=0.0)
    initialise(block)
    block.double()
    x = torch.randn(2, 11, 12, dtype=torch.float64)
    reach = (kernel - 1) * dilation
    convolution = nn.Conv1d(6, 6, kernel, padding=reach if causal else "same", dilation=dilation)
    convolution.double()
    with torch.no_grad():
        ours = block.convolution.projection
        convolution.weight.copy_(ours.weight.view(6, kernel, 6).transpose(1, 2))
        assert convolution.bias is not None
        convolution.bias.copy_(ours.bias)

    def normalised(x: Tensor) -> Tensor:
        return F.relu(F.layer_norm(x, x.shape[-1:], eps=1e-6))

    narrow = normalised(block.w_1(normalised(x)))
    mixed = convolution(narrow.transpose(1, 2)).transpose(1, 2)[:, :11]
    expected = x + block.w_2(normalised(mixed))
    assert_close(block(x), expected, rtol=0, atol=1e-10)


def dependence(outputs: Tensor, inputs: Tensor) -> list[int]:
    """Return the positions of the inputs, [1, T, d], on which an output vector depends."""
    (gradient,) = torch.autograd.grad(outputs.square().sum(), inputs)
    positions: list[int] = gradient[0].abs().sum(dim=1).nonzero()[:, 0].tolist()
    return positions


@pytest.mark.parametrize(("n_sets", "n_dilations", "kernel"), [(1, 3, 3), (2, 2, 3), (1, 2, 5)])
def test_the_receptive_field_is_the_sum_of_all_reaches(
    n_sets: int, n_dilations: int, kernel: int
) -> None:
    model = build(d_model=16, n_sets=n_sets, n_dilations=n_dilations, kernel=kernel)
    reach = n_sets * (kernel - 1) * (2**n_dilations - 1)
    x = torch.randn(1, 2 * reach + 5, 16, dtype=torch.float64, requires_grad=True)
    at = reach + 2
    encoded, decoded = x, x
    for block in model.encoder:
        encoded = block(encoded)
    for block in model.decoder:
        decoded = block(decoded)
    half = reach // 2
    assert dependence(encoded[:, at], x) == list(range(at - half, at + half + 1))
    assert dependence(decoded[:, at], x) == list(range(at - reach, at + 1))


def test_the_published_decoder_reaches_372_positions_back() -> None:
    config = load_config("bytenet").model
    assert isinstance(config, ByteNetConfig)
    assert config.dilations == [1, 2, 4, 8, 16] * 6
    assert sum((config.kernel - 1) * dilation for dilation in config.dilations) == 372


@given(a=st.floats(1, 2), b=st.floats(0, 6), seed=seeds)
@settings(max_examples=20)
def test_a_source_is_unfolded_to_its_own_length(a: float, b: float, seed: int) -> None:
    model = build(n_sets=1, n_dilations=2, unfold_a=a, unfold_b=b)
    lengths = [7, 3, 1]
    with torch.no_grad():  # else what is too far from the source to see it would be 0 too
        model.encoder_norm.bias.fill_(0.5)
    representation = model.encode(random_ids(lengths, seed=seed))
    for sentence, n in zip(representation, lengths, strict=True):
        written = sentence.abs().sum(dim=1) > 0
        size = int(written.sum())
        assert written[:size].all()  # from the first position on
        assert size == pytest.approx(a * n + b, abs=1.0001)
        assert size >= n
    assert (representation[:, -1] == 0).all()


def test_a_target_longer_than_the_source_reads_zeros() -> None:
    model = build(n_sets=1, n_dilations=1, unfold_a=1.0, unfold_b=0.0)
    src = random_ids([2], seed=1)
    tgt = torch.full((1, 12), 5)
    logits = model(src, tgt)  # the reach is 2, so the last two positions see no source
    assert_close(logits[:, -1], logits[:, -2])
    assert logits.isfinite().all()


@given(config=DRAWN["bytenet"], length=st.integers(1, 9))
@settings(max_examples=4)
def test_operations_are_two_for_each_weight_and_position(
    config: ByteNetConfig, length: int
) -> None:
    d = config.d_model // 2
    block = 2 * 2 * d * d + config.kernel * d * d
    blocks = len(config.dilations) * block
    positions = math.ceil(config.unfold_a * length + config.unfold_b) + 2
    output = config.d_model**2 + config.d_model * config.vocab_size
    expected = 2 * (blocks * (1 + positions / length) + output)
    cost = cost_of(config, length=length)
    assert cost.operations_per_token == pytest.approx(expected)
    assert cost.cache.per_tgt_token == 0


def test_packed_weights_score_the_same() -> None:
    config = ByteNetConfig(vocab_size=VOCAB_SIZE, d_model=8, n_sets=1, n_dilations=2)
    src, ids = random_ids([7, 3], seed=1), torch.full((2, 3), 5)
    before = build_model(config).eval()
    after = prepare_for_inference(build_model(config), precision="float32")
    scores = []
    for model in (before, after):
        with torch.inference_mode():
            state = model.start(model.encode(src), hypotheses=3, max_steps=4)
            scores.append(model.step(ids, state, position=torch.tensor([0]), reach=1))
    assert_close(*scores)


def test_it_has_no_attention_to_show() -> None:
    with pytest.raises(InputError, match="a ByteNet model has no attention to show"):
        build().attention_maps(torch.tensor([[5]]), torch.tensor([[EOS_ID]]))


def test_the_smallest_vocabulary_is_that_of_bytes() -> None:
    lines = ["ein Hund läuft", "a dog runs"] * 50
    tokenizer = Tokenizer.learn(lines, vocab_size=load_config("bytenet").model.vocab_size)
    [ids] = tokenizer.encode_batch(["läuft"])
    assert len(ids) == len("läuft".encode())


def test_it_is_described_and_its_export_is_refused(tmp_path: Path, command: Command) -> None:
    described = command("describe", "bytenet_small")
    assert described.code == 0, described.err
    assert described.out.startswith("bytenet_small: ByteNet, 8+8 blocks, d_model 512, kernel 3")
    config = Config(model=ByteNetConfig(vocab_size=VOCAB_SIZE, d_model=8, n_sets=1))
    words = " ".join(f"w{n}" for n in range(VOCAB_SIZE - 4))
    tokenizer = Tokenizer.learn([words], kind="whitespace", vocab_size=VOCAB_SIZE)
    save_model(tmp_path / "m", LoadedModel(build_model(config.model), config, tokenizer))
    mistake = command(
        "export", tmp_path / "m", "--to", "ctranslate2", "--out", tmp_path / "out"
    ).mistake()
    assert "bytenet" in mistake.lower()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("model.d_model=7", "model.d_model=7 is odd, but blocks compute in half of it"),
        ("model.kernel=2", "model.kernel=2 is even, but the encoder's convolutions have a centre"),
        ("model.unfold_a=0.5", "model.unfold_a=0.5: must be "),
    ],
)
def test_wrong_settings_are_one_clear_line(change: str, message: str, command: Command) -> None:
    assert message in command("describe", "bytenet_small", "--set", change).mistake()
