"""The presets against the paper: Table 3, as printed."""

import pytest
import torch

from tests.drawing import transformer_config
from transduce import build_model, load_config
from transduce.config.presets import presets_of

TABLE_3 = {
    # preset: (N, d_model, d_ff, h, d_k, d_v, P_drop, ε_ls, positions, steps)
    "base": (6, 512, 2048, 8, 64, 64, 0.1, 0.1, "sinusoidal", 100_000),
    "base_h1": (6, 512, 2048, 1, 512, 512, 0.1, 0.1, "sinusoidal", 100_000),
    "base_h4": (6, 512, 2048, 4, 128, 128, 0.1, 0.1, "sinusoidal", 100_000),
    "base_h16": (6, 512, 2048, 16, 32, 32, 0.1, 0.1, "sinusoidal", 100_000),
    "base_h32": (6, 512, 2048, 32, 16, 16, 0.1, 0.1, "sinusoidal", 100_000),
    "base_dk16": (6, 512, 2048, 8, 16, 64, 0.1, 0.1, "sinusoidal", 100_000),
    "base_dk32": (6, 512, 2048, 8, 32, 64, 0.1, 0.1, "sinusoidal", 100_000),
    "base_n2": (2, 512, 2048, 8, 64, 64, 0.1, 0.1, "sinusoidal", 100_000),
    "base_n4": (4, 512, 2048, 8, 64, 64, 0.1, 0.1, "sinusoidal", 100_000),
    "base_n8": (8, 512, 2048, 8, 64, 64, 0.1, 0.1, "sinusoidal", 100_000),
    "base_d256": (6, 256, 2048, 8, 32, 32, 0.1, 0.1, "sinusoidal", 100_000),
    "base_d1024": (6, 1024, 2048, 8, 128, 128, 0.1, 0.1, "sinusoidal", 100_000),
    "base_ff1024": (6, 512, 1024, 8, 64, 64, 0.1, 0.1, "sinusoidal", 100_000),
    "base_ff4096": (6, 512, 4096, 8, 64, 64, 0.1, 0.1, "sinusoidal", 100_000),
    "base_drop0": (6, 512, 2048, 8, 64, 64, 0.0, 0.1, "sinusoidal", 100_000),
    "base_drop02": (6, 512, 2048, 8, 64, 64, 0.2, 0.1, "sinusoidal", 100_000),
    "base_ls0": (6, 512, 2048, 8, 64, 64, 0.1, 0.0, "sinusoidal", 100_000),
    "base_ls02": (6, 512, 2048, 8, 64, 64, 0.1, 0.2, "sinusoidal", 100_000),
    "base_learned": (6, 512, 2048, 8, 64, 64, 0.1, 0.1, "learned", 100_000),
    "big": (6, 1024, 4096, 16, 64, 64, 0.3, 0.1, "sinusoidal", 300_000),
}

# Millions of parameters as printed; rows A, D and E print none.
PRINTED_PARAMETERS = {
    "base": 65,
    "base_dk16": 58,
    "base_dk32": 60,
    "base_n2": 36,
    "base_n4": 50,
    "base_n8": 80,
    "base_ff1024": 53,
    "base_ff4096": 90,
}


def parameters(name: str, *overrides: str) -> int:
    with torch.device("meta"):
        model = build_model(load_config(name, overrides).model)
    return sum(parameter.numel() for parameter in model.parameters())


def test_every_row_of_table_3_is_a_preset() -> None:
    others = {"tiny", "small", "moe", "moe_small", "modern_tiny"}
    rows = {name for name in presets_of("transformer") if not name.startswith("student_")}
    assert rows - others == set(TABLE_3)


@pytest.mark.parametrize("name", TABLE_3)
def test_a_preset_is_its_row_of_table_3(name: str) -> None:
    config = load_config(name)
    m, t = transformer_config(config), config.training
    assert m.n_encoder_layers == m.n_decoder_layers
    shape = (m.n_encoder_layers, m.d_model, m.d_ff, m.h, m.d_k, m.d_v)
    assert (*shape, m.p_drop, t.eps_ls, m.positions, t.steps) == TABLE_3[name]


@pytest.mark.parametrize("name", PRINTED_PARAMETERS)
def test_parameters_differ_from_base_as_printed(name: str) -> None:
    printed = PRINTED_PARAMETERS[name] - PRINTED_PARAMETERS["base"]
    counted = (parameters(name) - parameters("base")) / 1e6
    assert abs(counted - printed) <= 1


def test_the_base_model_has_exactly_the_papers_weights() -> None:
    assert parameters("base") == 63_045_632
    assert parameters("base", "model.attention_bias=true") == 63_082_496


def test_modern_tiny_has_the_size_of_tiny() -> None:
    assert parameters("modern_tiny") == pytest.approx(parameters("tiny"), rel=0.01)


def test_presets_build() -> None:
    assert parameters("tiny") < parameters("small") < parameters("base") < parameters("big")


STUDENTS = {
    # preset: encoder and decoder layers, d_model, d_ff, h
    "student_6_2": (6, 2, 512, 2048, 8),
    "student_6_1": (6, 1, 512, 2048, 8),
    "student_12_1": (12, 1, 512, 2048, 8),
    "student_slim": (6, 2, 384, 1536, 6),
    "student_tiny": (6, 2, 256, 1536, 8),
}


def test_students_have_shallow_decoders_and_search_greedily() -> None:
    assert {name for name in presets_of("transformer") if name.startswith("student_")} == set(
        STUDENTS
    )
    for name, shape in STUDENTS.items():
        config = load_config(name)
        m = transformer_config(config)
        assert (m.n_encoder_layers, m.n_decoder_layers, m.d_model, m.d_ff, m.h) == shape
        assert config.run.beam == 1
    assert 3 * parameters("student_tiny") <= parameters("base")
