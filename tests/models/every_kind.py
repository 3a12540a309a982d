"""Small models of every kind of this package, for the properties that all of them have."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.drawing import VOCAB_SIZE, mixed_configs, model_configs, seeds, varied_configs
from transduce.config.schema import ModelConfig
from transduce.models.base import Seq2Seq
from transduce.models.build import build_model
from transduce.models.bytenet.settings import ByteNetConfig
from transduce.models.conv_s2s.settings import ConvS2SConfig
from transduce.models.memory_network.settings import MemoryNetworkConfig
from transduce.models.neural_gpu.settings import NeuralGPUConfig
from transduce.models.rnn.settings import RNNConfig


def conv_s2s_configs() -> SearchStrategy[ModelConfig]:
    """Draw stacks whose layers differ in width and kernel."""
    group = st.builds(
        "{}x{}k{}".format, st.integers(1, 2), st.integers(2, 7), st.sampled_from([1, 3, 5])
    )
    layers = st.lists(group, min_size=1, max_size=2).map("+".join)
    return st.builds(
        ConvS2SConfig,
        vocab_size=st.just(VOCAB_SIZE),
        d_model=st.integers(2, 8),
        encoder_layers=layers,
        decoder_layers=layers,
        max_positions=st.just(32),
    )


def bytenet_configs() -> SearchStrategy[ModelConfig]:
    """Draw dilations shorter and longer than the sentences, and sources unfolded to any length."""
    return st.builds(
        ByteNetConfig,
        vocab_size=st.just(VOCAB_SIZE),
        d_model=st.sampled_from([8, 12]),
        n_sets=st.integers(1, 2),
        n_dilations=st.integers(1, 4),
        kernel=st.sampled_from([1, 3, 5]),
        unfold_a=st.floats(1, 1.5),
        unfold_b=st.floats(0, 6),
    )


def neural_gpu_configs() -> SearchStrategy[ModelConfig]:
    """Draw images that are shorter and longer than the targets."""
    return st.builds(
        NeuralGPUConfig,
        vocab_size=st.just(VOCAB_SIZE),
        d_model=st.integers(2, 8),
        image_width=st.integers(1, 3),
        n_layers=st.integers(1, 2),
        cells_per_token=st.integers(1, 2),
        spare_cells=st.integers(0, 3),
    )


def memory_network_configs() -> SearchStrategy[ModelConfig]:
    """Draw memories of tokens, and of sentences, of which some are too many."""
    return st.builds(
        MemoryNetworkConfig,
        vocab_size=st.just(VOCAB_SIZE),
        d_model=st.integers(2, 8),
        hops=st.integers(1, 3),
        memory_size=st.integers(1, 12),
        sentence_end_ids=st.sampled_from([(), (5,), (4, 9, 10, 17)]),
    )


@st.composite
def rnn_configs(draw: st.DrawFn) -> RNNConfig:
    """Draw all cells, decoders and score functions; dot products need states of one width."""
    attention = draw(st.sampled_from(["additive", "general", "dot", "scaled_dot"]))
    is_dot = attention in ("dot", "scaled_dot")
    return RNNConfig.model_validate(
        {
            "vocab_size": VOCAB_SIZE,
            "d_model": draw(st.integers(2, 8)),
            "d_hidden": draw(st.integers(2, 8)),
            "cell": draw(st.sampled_from(["lstm", "gru"])),
            "n_encoder_layers": draw(st.integers(2 if is_dot else 1, 4)),
            "n_decoder_layers": draw(st.integers(1, 4)),
            "bidirectional": draw(
                st.sampled_from(["first", "none"] if is_dot else ["all", "none"])
            ),
            "residual": draw(st.booleans()),
            "attention": attention,
            "decoder": draw(st.sampled_from(["bahdanau", "input_feeding", "luong", "gnmt"])),
        }
    )


DRAWN: dict[str, SearchStrategy[ModelConfig]] = {
    # Layer norm over two numbers leaves only signs, which may stay equal.
    "transformer": model_configs(d_model=8) | varied_configs(d_model=8) | mixed_configs(d_model=8),
    "rnn": rnn_configs(),
    "conv_s2s": conv_s2s_configs(),
    "bytenet": bytenet_configs(),
    "neural_gpu": neural_gpu_configs(),
    "memory_network": memory_network_configs(),
}
"""Settings of small models by kind, with `VOCAB_SIZE` entries and at least 32 positions."""


@st.composite
def any_model(draw: st.DrawFn, kind: str) -> Seq2Seq:
    """Build a model of a kind without dropout, in float64, so that only a real difference shows."""
    return build_model(draw(DRAWN[kind]), seed=draw(seeds)).double().eval()
