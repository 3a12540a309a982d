"""The shape comments in `nn` and `models` are true of a real run."""

from pathlib import Path
from typing import Any

import pytest
import torch

import transduce
from tests.drawing import random_ids, transformer
from tests.models.test_transformer import layout_of
from tests.project.shape_comments import Sizes, shape_faults
from transduce.models.attention import attention_of
from transduce.models.build import build_model
from transduce.models.bytenet.settings import ByteNetConfig
from transduce.models.conv_s2s.settings import ConvS2SConfig
from transduce.models.rnn.settings import RNNConfig
from transduce.models.transformer.settings import TransformerConfig
from transduce.nn.int8_weights import Int8Linear, can_quantize
from transduce.text.special_ids import EOS_ID
from transduce.text.tokenizer import Tokenizer

PACKAGE = Path(transduce.__file__).parent


def texts(*patterns: str) -> dict[Path, str]:
    """Read the modules of these patterns; kernels are left out, because they need a CUDA device."""
    paths = [path for pattern in patterns for path in sorted(PACKAGE.glob(pattern))]
    return {path: path.read_text(encoding="utf-8") for path in paths}


MIXERS = "nn/mixers"
SOURCES = texts(
    *("nn/[!im]*.py", "nn/initialise.py", "models/*.py", "models/transformer/*.py"),
    *(f"{MIXERS}/{name}.py" for name in ("attention", "heads", "key_ranges", "masks", "positions")),
)

# All different, so that no two names can be mistaken for one another.
SHAPE = {"N": 2, "h": 4, "d_k": 6, "d_v": 8, "d_model": 10, "d_ff": 12, "V": 23}
LENGTHS = {"max_steps": 11, "max_positions": 32}
BATCH = {"S": 7, "T": 9}
TOKENIZER = Tokenizer.learn(
    [" ".join(f"w{n}" for n in range(19))], kind="whitespace", vocab_size=SHAPE["V"]
)
SEARCH = {"k": 3, "reach": 2}


def sizes(path: Path) -> Sizes:
    """In `models` the names are the batch's; the parts in `nn` are called with other lengths too.

    A search calls them with k queries a sentence and k keys for each position up to `reach`.
    """
    always = {name: {size} for name, size in (SHAPE | LENGTHS | BATCH | SEARCH).items()} | {
        "B": {5, 1}
    }
    if path.is_relative_to(PACKAGE / "models"):
        return always
    return always | {"S": {7, 9, 3, 6}, "T": {7, 9, 3, 1}}


def run() -> None:
    """Visit every line that has a shape: training, inspection, search, kinds of positions."""
    src = random_ids([7, 3, 5, 1, 7], seed=1)
    tgt = random_ids([9, 2, 4, 9, 1], seed=2)
    variants: dict[str, dict[str, Any]] = {
        "sinusoidal": {},
        "learned": {"attention_score": "additive", "experts": 13},
        "t5": {"activation": "swiglu"},
    }
    for positions, variant in variants.items():
        config = TransformerConfig.model_validate(
            {
                "vocab_size": 23,
                "n_layers": 2,
                "d_model": 10,
                "d_ff": 12,
                "h": 4,
                "d_k": 6,
                "d_v": 8,
                "positions": positions,
                "max_positions": 32,
                **variant,
            }
        )
        model = transformer(config)
        model(src, tgt)
        model.training_states(src, tgt)
        model.training_states(src, tgt, None, torch.zeros_like(tgt))
        layout = layout_of([4, 3], [7, 2], rest=0)
        model.decode_states(model.encode(src[:1], layout), tgt[:1], layout)
        attention_of(model, TOKENIZER, [4] * 6, [*[5] * 8, EOS_ID])
        model.attention_maps(src, tgt)
        state = model.start(model.encode(src), hypotheses=3, max_steps=11)
        for step in range(2):
            last_ids = tgt[:, step, None].expand(5, 3)
            model.step(last_ids, state, position=torch.tensor([step]), reach=2)
            state.select(torch.zeros(5, 3, dtype=torch.long))


def test_every_shape_comment_is_true() -> None:
    assert shape_faults(SOURCES, sizes, run) == []


def test_those_of_experts_are_true() -> None:
    """In training, in inference, and in inference with gradients."""
    tokens = {35, 45, 7, 9, 15}
    own = {"E": {13}, "K": {2}, "M": tokens, "C": tokens | {8, 16}, "S": {7}, "T": {9, 7, 3}}

    def visit() -> None:
        run()
        config = {"vocab_size": 23, "d_model": 10, "d_ff": 12, "h": 5, "experts": 13}
        model = transformer(TransformerConfig.model_validate(config)).eval()
        src, tgt = random_ids([7, 3, 5, 1, 7], seed=1), random_ids([9, 2, 4, 9, 1], seed=2)
        model(src, tgt)
        with torch.no_grad():
            model(src, tgt)

    mixture = PACKAGE / "nn/mixture.py"
    assert shape_faults(texts("nn/mixture.py"), lambda _: sizes(mixture) | own, visit) == []


def test_those_of_int8_weights_are_true() -> None:
    if not can_quantize():
        pytest.skip("this processor does not multiply int8 fast")

    def visit() -> None:
        Int8Linear.of(torch.randn(8, 6))(torch.randn(5, 7, 6))

    sizes = {"N": {35}, "in": {6}, "out": {8}}
    assert shape_faults(texts("nn/int8_weights.py"), lambda _: sizes, visit) == []


def test_those_of_recurrent_models_are_true() -> None:
    """Every wiring of the decoder, trained, inspected and searched with."""
    sources = texts(f"{MIXERS}/recurrence.py", f"{MIXERS}/score_functions.py", "models/rnn/*.py")
    own = {"d_hidden": 6, "d_source": 12, "n_states": 4, "d_fed": 12, "gates": 24, "d_query": 6}
    named = SHAPE | BATCH | SEARCH | own
    fed = {"d_fed": {0, 10, 12}, "d_source": {12, 6}, "T": {9, 7, 3, 1}, "k": {3, 1}, "B": {5, 1}}

    def visit() -> None:
        src, tgt = random_ids([7, 3, 5, 1, 7], seed=1), random_ids([9, 2, 4, 9, 1], seed=2)
        for decoder in ("bahdanau", "input_feeding", "luong", "gnmt"):
            config = RNNConfig.model_validate(
                {"vocab_size": 23, "d_model": 10, "d_hidden": 6, "decoder": decoder}
            )
            model = build_model(config)
            model(src, tgt)
            model.attention_maps(src, tgt)
            with torch.no_grad():
                model(src, tgt)
            state = model.start(model.encode(src), hypotheses=3, max_steps=11)
            model.step(tgt[:, :1].expand(5, 3), state, position=torch.tensor([0]), reach=2)
        dots = RNNConfig(
            vocab_size=23, d_model=10, d_hidden=6, bidirectional="none", attention="dot"
        )
        build_model(dots)(src, tgt)

    sizes = {name: {size} for name, size in named.items()} | fed
    assert shape_faults(sources, lambda _: sizes, visit) == []


def test_those_of_convolutional_models_are_true() -> None:
    """Trained, inspected and searched with."""
    sources = texts(f"{MIXERS}/convolution.py", "models/conv_s2s/*.py", "models/bytenet/*.py")
    named = SHAPE | BATCH | SEARCH | {"window": 5}
    varied = {"B": {5}, "d_in": {6}, "T": {9, 3}}

    def visit() -> None:
        src, tgt = random_ids([7, 3, 5, 1, 7], seed=1), random_ids([9, 2, 4, 9, 1], seed=2)
        sizes = {"vocab_size": 23, "d_model": 10}
        gated = ConvS2SConfig.model_validate(sizes | {"layers": "2x6k5"})
        dilated = ByteNetConfig.model_validate(
            {"vocab_size": 23, "d_model": 12, "n_sets": 2, "n_dilations": 1, "kernel": 5}
        )
        for config in (gated, dilated):
            model = build_model(config)
            model(src, tgt)
            state = model.start(model.encode(src), hypotheses=3, max_steps=11)
            model.step(tgt[:, :1].expand(5, 3), state, position=torch.tensor([0]), reach=2)

    sizes = {name: {size} for name, size in named.items()} | varied | {"d_model": {10, 12}}
    assert shape_faults(sources, lambda _: sizes, visit) == []


@pytest.mark.exhaustive(after=4)
@pytest.mark.parametrize(
    ("file", "true", "planted"),
    [
        ("nn/mixers/heads.py", "# [B, T, h*d_v]", "# [B, T, h*d_k]"),
        ("nn/mixers/attention.py", "# [B, h, T, S]", "# [B, h, S, T]"),
        ("nn/mixers/masks.py", "# [T, T]", "# [T, T, T]"),
        ("nn/feed_forward.py", "# [B, T, d_ff]", "# [B, T, d_model]"),
        ("nn/feed_forward.py", "# [B, T, ", "# [T, B, "),
        ("nn/feed_forward.py", "# [B, T, d_ff]", "# [B, T, d_ff] inside"),
        ("nn/mixers/positions.py", "# [max_positions, d_model]", "# [d_model, max_positions]"),
        ("nn/embedding.py", "# [B, T, V]", "# [B, V, T]"),
        ("nn/step_state.py", "# [B, h, max_steps, k, d_k]", "# [B, h, k, max_steps, d_v]"),
        ("nn/step_state.py", "# [B, 1, k, reach*k]", "# [B, k, 1, reach*k]"),
        ("models/transformer/model.py", "# [B, T, V]", "# [B, S, V]"),
        ("models/transformer/model.py", "# [B, k, d_model]", "# [B, 1, d_model]"),
        ("models/base.py", "# [B, S, d_model]", "# [S, B, d_model]"),
    ],
)
def test_a_planted_false_comment_is_found(file: str, true: str, planted: str) -> None:
    path = PACKAGE / file
    assert true in SOURCES[path]
    faults = shape_faults(SOURCES | {path: SOURCES[path].replace(true, planted)}, sizes, run)
    assert any(fault.startswith(path.name) for fault in faults)


def test_a_comment_on_a_line_that_never_runs_is_found() -> None:
    path = PACKAGE / "nn/mixers/masks.py"
    unused = "\n\ndef unused() -> None:\n    x = 1  # [B, S]\n"
    faults = shape_faults(SOURCES | {path: SOURCES[path] + unused}, sizes, run)
    assert len(faults) == 1
    assert "was never met" in faults[0]


def test_a_comment_on_nothing_that_has_a_shape_is_found() -> None:
    path = PACKAGE / "nn/mixers/masks.py"
    faults = shape_faults(SOURCES | {path: SOURCES[path] + "\nimport math  # [B, S]\n"}, sizes, run)
    assert len(faults) == 1
    assert "on nothing that has a shape" in faults[0]
