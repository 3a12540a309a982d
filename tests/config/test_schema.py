from typing import Any

import pytest
from pydantic import ValidationError

from tests.drawing import transformer_config
from transduce import Config, ConfigError
from transduce.config.schema import setting_names
from transduce.models.transformer.settings import TransformerConfig


def test_defaults_are_the_papers_base_model() -> None:
    model = transformer_config(Config())
    assert (model.n_layers, model.d_model, model.d_ff, model.h) == (6, 512, 2048, 8)
    assert (model.d_k, model.d_v, model.p_drop, model.norm) == (64, 64, 0.1, "post")
    assert (Config().training.eps_ls, Config().training.steps) == (0.1, 100_000)


def test_head_widths_follow_the_model_unless_given() -> None:
    assert TransformerConfig(d_model=256, h=4).d_k == 64
    assert (TransformerConfig(d_k=16).d_k, TransformerConfig(d_k=16).d_v) == (16, 64)


def changed(model: TransformerConfig, **changes: int) -> TransformerConfig:
    return transformer_config(Config(model=model).with_changes({"model": changes}))


def test_a_copy_with_changes_computes_head_widths_again() -> None:
    assert changed(TransformerConfig(d_model=256), h=2).d_k == 128
    assert changed(TransformerConfig(d_k=16), h=2).d_k == 16


@pytest.mark.parametrize(
    ("given", "depths"),
    [
        ({}, (6, 6)),
        ({"n_layers": 3}, (3, 3)),
        ({"n_layers": 3, "n_encoder_layers": 9}, (9, 3)),
        ({"n_decoder_layers": 2}, (6, 2)),
        ({"n_encoder_layers": 12, "n_decoder_layers": 1}, (12, 1)),
    ],
)
def test_n_layers_sets_the_depths_that_are_not_given(
    given: dict[str, int], depths: tuple[int, int]
) -> None:
    model = TransformerConfig.model_validate(given)
    assert (model.n_encoder_layers, model.n_decoder_layers) == depths
    later = changed(model, n_layers=4)
    assert later.n_encoder_layers == given.get("n_encoder_layers", 4)
    assert later.n_decoder_layers == given.get("n_decoder_layers", 4)


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Config().model.d_model = 4


def test_every_setting_is_documented() -> None:
    sections = {name: type(getattr(Config(), name)) for name in Config.model_fields}
    described = {
        f"{section}.{name}"
        for section, kind in sections.items()
        for name, field in kind.model_fields.items()
        if field.description
    }
    assert described == set(setting_names(TransformerConfig))


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"model": {"d_modle": 1}}, "unknown setting model.d_modle (did you mean model.d_model?)"),
        ({"eps_ls": 0.1}, "unknown setting eps_ls (did you mean training.eps_ls?)"),
        ({"modle": {"h": 1}}, "unknown setting modle (did you mean model?)"),
        (
            {"model": {"qqqqq": 1}},
            "unknown setting model.qqqqq; transduce describe PRESET --yaml lists all",
        ),
        ({"model": {"steps": 1}}, "unknown setting model.steps (did you mean training.steps?)"),
        (
            {"optimiser": {"lr": 3, "warmup": 4}},
            "unknown setting optimiser.lr (did you mean training.learning_rate?); "
            "unknown setting optimiser.warmup (did you mean training.warmup_steps?)",
        ),
        ({"lr": 3}, "unknown setting lr (did you mean training.learning_rate?)"),
        (
            {"model": {"h": 7}},
            "model.h=7 does not divide model.d_model=512; use one of 1, 2, 4, 8, 16, 32, 64, "
            "or give model.d_k and model.d_v",
        ),
        ({"model": {"h": 0}}, "model.h=0: must be 1 or more"),
        ({"model": {"n_layers": 1001}}, "model.n_layers=1001: must be at most 1,000"),
        ({"model": {"h": True}}, "model.h=True: must be a whole number"),
        ({"model": {"h": "8"}}, "model.h='8': must be a whole number"),
        ({"model": {"p_drop": 1}}, "model.p_drop=1: must be less than 1"),
        ({"model": {"norm": "mid"}}, "model.norm='mid': must be 'post' or 'pre'"),
        (
            {"run": {"device": "gpu"}},
            "run.device='gpu': must be cpu, cuda, cuda:N or mps; auto: a GPU if there is one",
        ),
        ({"data": {"clean": "maybe"}}, "data.clean='maybe': must be true or false"),
        ({"data": {"weights": [1, "b"]}}, "data.weights='b': must be a number"),
        ({"data": {"src": [3]}}, "data.src=3: must be text"),
        ({"training": {"minutes": 0}}, "training.minutes=0: must be more than 0"),
        ({"model": 3}, "model must be a mapping of names to values: found 3"),
        (["model"], "the settings must be a mapping of names to values: found ['model']"),
        (
            {"model": {"d_model": 9, "h": 3}},
            "model.d_model=9 is odd, but sinusoidal positions come in pairs; "
            "use an even width or model.positions=learned",
        ),
    ],
)
def test_a_wrong_setting_is_named_with_its_rule(tree: Any, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Config.from_tree(tree)
    assert str(raised.value) == message


def test_all_mistakes_are_reported_at_once() -> None:
    with pytest.raises(ConfigError, match=r"model\.h=0: .*; model\.norm='x': "):
        Config.from_tree({"model": {"h": 0, "norm": "x"}})
