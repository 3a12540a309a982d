from typing import Any

import pytest
from pydantic import ValidationError

from transduce import Config, ConfigError
from transduce.config.schema import ModelConfig, setting_names


def test_defaults_are_the_papers_base_model() -> None:
    model = Config().model
    assert (model.n_layers, model.d_model, model.d_ff, model.h) == (6, 512, 2048, 8)
    assert (model.d_k, model.d_v, model.p_drop, model.norm) == (64, 64, 0.1, "post")
    assert (Config().training.eps_ls, Config().training.steps) == (0.1, 100_000)


def test_head_widths_follow_the_model_unless_given() -> None:
    assert ModelConfig(d_model=256, h=4).d_k == 64
    assert (ModelConfig(d_k=16).d_k, ModelConfig(d_k=16).d_v) == (16, 64)


def test_a_copy_with_changes_works_head_widths_out_again() -> None:
    assert Config(model=ModelConfig(d_model=256)).with_changes({"model": {"h": 2}}).model.d_k == 128
    assert Config(model=ModelConfig(d_k=16)).with_changes({"model": {"h": 2}}).model.d_k == 16


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Config().model.h = 4


def test_every_setting_is_documented() -> None:
    sections = {name: type(getattr(Config(), name)) for name in Config.model_fields}
    described = {
        f"{section}.{name}"
        for section, kind in sections.items()
        for name, field in kind.model_fields.items()
        if field.description
    }
    assert described == set(setting_names())


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"model": {"d_modle": 1}}, "unknown setting model.d_modle (did you mean model.d_model?)"),
        ({"eps_ls": 0.1}, "unknown setting eps_ls (did you mean training.eps_ls?)"),
        ({"modle": {"h": 1}}, "unknown setting modle (did you mean model?)"),
        ({"model": {"qqqqq": 1}}, "unknown setting model.qqqqq"),
        (
            {"model": {"h": 7}},
            "model.h=7 does not divide model.d_model=512; use one of 1, 2, 4, 8, 16, 32, 64, "
            "or give model.d_k and model.d_v",
        ),
        ({"model": {"h": 0}}, "model.h=0: must be greater than or equal to 1"),
        ({"model": {"h": True}}, "model.h=True: must be a valid integer"),
        ({"model": {"h": "8"}}, "model.h='8': must be a valid integer"),
        ({"model": {"p_drop": 1}}, "model.p_drop=1: must be less than 1"),
        ({"model": {"norm": "mid"}}, "model.norm='mid': must be 'post' or 'pre'"),
        ({"model": 3}, "model must be names with values below them: found 3"),
        (["model"], "the settings must be names with values below them: found ['model']"),
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


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(ConfigError, match=r"model\.h=0: .*; model\.norm='x': "):
        Config.from_tree({"model": {"h": 0, "norm": "x"}})
