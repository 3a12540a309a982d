from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import model_configs, transformer_config
from transduce import Config, ConfigError, load_config
from transduce.config.load import to_yaml
from transduce.config.presets import all_presets
from transduce.config.schema import TrainingConfig, setting_names
from transduce.config.sections.augment import USUAL_RATES
from transduce.models.transformer.settings import TransformerConfig


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "settings.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@given(model=model_configs(), eps_ls=st.floats(0, 0.99), p_drop=st.floats(0, 0.99))
def test_settings_written_to_yaml_read_back_the_same(
    tmp_path_factory: pytest.TempPathFactory, model: TransformerConfig, eps_ls: float, p_drop: float
) -> None:
    config = Config(model=model, training=TrainingConfig(eps_ls=eps_ls)).with_changes(
        {"model": {"p_drop": p_drop}}
    )
    path = written(tmp_path_factory.mktemp("config"), to_yaml(config))
    assert load_config(path) == config


@pytest.mark.parametrize("name", all_presets())
def test_every_preset_survives_yaml(name: str, tmp_path: Path) -> None:
    assert load_config(written(tmp_path, to_yaml(load_config(name)))) == load_config(name)


def test_the_yaml_explains_every_setting() -> None:
    text, names = to_yaml(Config()), setting_names(TransformerConfig)
    assert all(f" {name.partition('.')[2]}: " in text for name in names)
    follow = ["n_encoder_layers", "n_decoder_layers", "kv_heads", "d_k", "d_v", "max_distance"]
    follow += ["alignment_layer", "schedule"]
    assert text.count("# ") == len(names) + len(Config.model_fields) + len(follow)


def loaded(source: str | Path, *overrides: str) -> TransformerConfig:
    return transformer_config(load_config(source, overrides))


def test_head_widths_still_follow_after_a_round_trip(tmp_path: Path) -> None:
    path = written(tmp_path, to_yaml(load_config("base")))
    assert loaded(path, "model.h=4").d_k == 128
    path = written(tmp_path, to_yaml(load_config("base_dk16")))
    assert loaded(path, "model.h=4").d_k == 16


def test_depths_still_follow_after_a_round_trip(tmp_path: Path) -> None:
    path = written(tmp_path, to_yaml(load_config("base", ["model.n_decoder_layers=2"])))
    for n_layers in (6, 9):
        found = loaded(path, f"model.n_layers={n_layers}")
        assert (found.n_encoder_layers, found.n_decoder_layers) == (n_layers, 2)


def test_a_file_may_start_from_a_preset(tmp_path: Path) -> None:
    path = written(tmp_path, "preset: big\nmodel:\n  n_layers: 2\n")
    assert load_config(path) == load_config("big", ["model.n_layers=2"])


def test_a_later_change_wins_over_an_earlier_one_and_over_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "model: {h: 2}")
    assert loaded(path, "model.h=4", "model.h=16").h == 16


def test_numbers_may_be_written_as_people_write_them(tmp_path: Path) -> None:
    assert load_config(written(tmp_path, "model: {p_drop: 1e-2}")).model.p_drop == 0.01
    assert load_config("base", ["model.p_drop=2e-1"]).model.p_drop == 0.2
    assert load_config("base", ["model.p_drop=0"]).model.p_drop == 0.0


@pytest.mark.parametrize(
    ("text", "names"),
    [("dev.en", ("dev.en",)), ("[a.en, b.en]", ("a.en", "b.en")), ("[]", ()), ("null", ())],
)
def test_files_are_one_several_or_none(text: str, names: tuple[str, ...], tmp_path: Path) -> None:
    config = load_config(written(tmp_path, f"data: {{dev_src: {text}}}"))
    assert config.data.dev_src == names
    assert load_config(written(tmp_path, to_yaml(config))) == config


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: {h: 4, h: 8}", "line 1: a setting is given twice"),
        ("model:\n  h: [", "line 2: "),
        ("", "write settings in sections, such as 'model:'"),
        ("preset: bsae", "no preset named 'bsae' (did you mean base?)"),
        ("model: !!python/object/apply:os.getcwd []", "could not determine a constructor"),
        ("model: \x00", "special characters are not allowed"),
        ("a: &a [x]\nmodel: {h: *a}", "line 2: aliases are not allowed in settings"),
        ("model: {h: 2001-13-45}", "cannot be read as settings (month must be in 1..12)"),
        ("model: {h: !!timestamp x}", "cannot be read as settings"),
        ("model: " + "[" * 3000, "cannot be read as settings"),
        ("model: {h: " + "9" * 5000 + "}", "cannot be read as settings"),
    ],
)
def test_a_broken_file_is_one_clear_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_config(written(tmp_path, text))
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_bytes(b"model: \xff")
    with pytest.raises(ConfigError, match=r"settings\.yaml is not UTF-8 text \(byte 7\)"):
        load_config(tmp_path / "settings.yaml")


def test_a_missing_file_and_a_folder_without_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*none\.yaml: No such file"):
        load_config(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match=r"cannot read .*config\.yaml: No such file"):
        load_config(tmp_path)


def test_an_unknown_preset_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"'bse' \(did you mean base\?\)"):
        load_config("bse")


@pytest.mark.parametrize("override", ["model.h", "=3", "model.=3", ".h=3"])
def test_a_malformed_override_is_shown_the_form(override: str) -> None:
    with pytest.raises(ConfigError, match=r"write it as section\.name=value"):
        load_config("base", [override])


def test_a_models_folder_stands_for_its_settings(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(to_yaml(load_config("small")), encoding="utf-8")
    assert load_config(tmp_path) == load_config("small")


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["data.augment=true"], USUAL_RATES),
        (["data.augment=false"], {}),
        (["data.augment.typos=0.4"], {"typos": 0.4}),
        (["data.augment={upper: 0.2, lower: 0.1}"], {"upper": 0.2, "lower": 0.1}),
        (["data.augment=true", "data.augment.typos=0.4"], USUAL_RATES | {"typos": 0.4}),
        (["data.augment.typos=0.4", "data.augment=true"], USUAL_RATES | {"typos": 0.4}),
        (["data.augment=true", "data.augment=false"], {}),
    ],
)
def test_noise_has_usual_rates_and_single_ones(
    overrides: list[str], expected: dict[str, float], tmp_path: Path
) -> None:
    config = load_config("base", overrides)
    assert config.data.augment.rates() == expected
    assert load_config(written(tmp_path, to_yaml(config))).data.augment.rates() == expected


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data.augment.typo=0.1", r"did you mean data\.augment\.typos\?"),
        ("data.augment.typos=2", r"data\.augment\.typos=2: must be at most 1"),
        ("data.augment={upper: 0.7, lower: 0.7}", "together they must be at most 1"),
    ],
)
def test_wrong_rates_are_named(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config("base", [override])
