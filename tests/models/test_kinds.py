"""Architectures that other packages add through the entry points `transduce.models`."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from tests.command import Command
from tests.drawing import VOCAB_SIZE, random_ids
from tests.models.recurrent import Recurrent, RecurrentConfig
from transduce.config import kinds
from transduce.config.kinds import find_kind, kind_names
from transduce.config.load import load_config, to_yaml
from transduce.config.presets import all_presets, presets_of
from transduce.config.schema import Config
from transduce.errors import ConfigError, InputError
from transduce.grammar import generate
from transduce.models.attention import attention_of
from transduce.models.build import build_model
from transduce.models.folder import LoadedModel, load_model, save_model
from transduce.text.tokenizer import Tokenizer
from transduce.training.loop import train

WORDS = " ".join(f"w{n}" for n in range(VOCAB_SIZE - 4))
OWN = list(kinds._OWN)
Install = Callable[[str], None]


def forget_kinds() -> None:
    find_kind.cache_clear()
    kinds._installed.cache_clear()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a distribution that has these entry points, until the test ends."""
    packages = tmp_path / "site-packages"
    monkeypatch.syspath_prepend(packages)

    def install(entry_points: str) -> None:
        metadata = packages / "more_models-1.0.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: more-models\nVersion: 1.0")
        text = f"[transduce.models]\n{entry_points}\n"
        (metadata / "entry_points.txt").write_text(text, encoding="utf-8")
        forget_kinds()

    yield install
    monkeypatch.undo()
    forget_kinds()


@pytest.fixture
def recurrent(install: Install) -> None:
    install("recurrent = tests.models.recurrent:KIND")


def saved(folder: Path) -> LoadedModel:
    """Save a model of the other kind and return it."""
    config = Config(model=RecurrentConfig(vocab_size=VOCAB_SIZE, d_model=6, d_recurrent=5))
    tokenizer = Tokenizer.learn([WORDS], kind="whitespace", vocab_size=VOCAB_SIZE)
    model = LoadedModel(build_model(config.model, seed=4).eval(), config, tokenizer)
    save_model(folder, model)
    return model


@pytest.mark.usefixtures("recurrent")
def test_a_model_of_another_kind_is_saved_and_loaded(tmp_path: Path) -> None:
    before = saved(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.config == before.config
    assert isinstance(loaded.model, Recurrent)
    src, tgt = random_ids([7, 3], seed=1), random_ids([9, 2], seed=2)
    assert torch.equal(loaded.model(src, tgt), before.model(src, tgt))


@pytest.mark.usefixtures("recurrent")
def test_its_settings_go_through_yaml_and_changes(tmp_path: Path) -> None:
    config = load_config("recurrent_small", ["model.d_recurrent=9"])
    assert config.model == RecurrentConfig(vocab_size=100, d_model=8, d_recurrent=9)
    (tmp_path / "mine.yaml").write_text(to_yaml(config), encoding="utf-8")
    assert load_config(tmp_path / "mine.yaml") == config
    (tmp_path / "short.yaml").write_text("model: {kind: recurrent, d_recurrent: 7}\n")
    assert load_config(tmp_path / "short.yaml").model == RecurrentConfig(d_recurrent=7)


@pytest.mark.usefixtures("recurrent")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["model.d_recurent=3"], "unknown setting model.d_recurent (did you mean model.d_recurre"),
        (["model.h=3"], "unknown setting model.h"),  # a Transformer has it
        (["model.d_recurrent=0"], "model.d_recurrent=0: must be 1 or more"),
    ],
)
def test_a_wrong_setting_is_named_by_the_rules_of_its_kind(
    changes: list[str], message: str, command: Command
) -> None:
    with pytest.raises(ConfigError) as raised:
        load_config("recurrent_small", changes)
    assert str(raised.value).startswith(message)
    words = [word for change in changes for word in ("--set", change)]
    assert message in command("describe", "recurrent_small", *words).mistake()


@pytest.mark.usefixtures("recurrent")
def test_it_is_listed_and_described(command: Command) -> None:
    assert kind_names() == [*OWN, "recurrent"]
    assert list(presets_of("recurrent")) == ["recurrent_small"]
    assert {"base", "recurrent_small"} <= all_presets().keys()
    listed = command("presets")
    assert listed.code == 0
    assert "model.kind=recurrent\n" in listed.out
    assert "d_recurrent" in listed.out
    assert "recurrent_small" in listed.out
    described = command("describe", "recurrent_small")
    assert described.code == 0, described.err
    assert described.out.startswith("recurrent_small: recurrent, d_model 8, ")
    [total] = [line for line in described.out.splitlines() if line.startswith(" total ")]
    config = load_config("recurrent_small").model
    weights = sum(parameter.numel() for parameter in build_model(config).parameters())
    assert f" {weights:,} " in total


@pytest.mark.usefixtures("recurrent")
def test_attention_that_it_has_not_is_refused(tmp_path: Path) -> None:
    loaded = saved(tmp_path)
    with pytest.raises(InputError, match="a Recurrent model has no attention to show"):
        attention_of(loaded.model, loaded.tokenizer, [5], [6])


def test_a_kind_that_is_not_installed_is_one_line(tmp_path: Path, command: Command) -> None:
    message = f"no kind of model named 'recurrent': model.kind is one of {', '.join(OWN)}"
    with pytest.raises(ConfigError) as raised:
        load_config("base", ["model.kind=recurrent"])
    assert str(raised.value) == message
    with pytest.raises(ConfigError, match=r"\(did you mean transformer\?\)"):
        load_config("base", ["model.kind=transfomer"])
    with pytest.raises(ConfigError, match=r"model\.kind=7: must be the name of a kind of model"):
        load_config("base", ["model.kind=7"])
    assert command("describe", "base", "--set", "model.kind=recurrent").mistake() == message

    for name in ("model.safetensors", "tokenizer.json"):
        (tmp_path / name).touch()
    settings = to_yaml(Config(model=RecurrentConfig()))
    (tmp_path / "config.yaml").write_text(settings, encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        load_model(tmp_path)
    assert str(raised.value) == f"{tmp_path / 'config.yaml'}: {message}"
    (tmp_path / "text").write_text("w1 w2\n")
    mistake = command("translate", tmp_path, tmp_path / "text").mistake()
    assert mistake == f"{tmp_path / 'config.yaml'}: {message}"


@pytest.mark.parametrize(
    ("entry_point", "name"),
    [
        ("recurrent = tests.models.recurrent:NO_KIND", "recurrent"),
        ("gated = tests.models.recurrent:KIND", "gated"),  # whose own name is another
    ],
)
def test_an_entry_point_that_is_no_kind_is_refused(
    entry_point: str, name: str, install: Install
) -> None:
    install(entry_point)
    with pytest.raises(
        ConfigError, match=f"the entry point '{name}' of transduce.models is not a ModelKind"
    ):
        load_config("base", [f"model.kind={name}"])


def test_an_installed_kind_cannot_take_the_place_of_our_own(install: Install) -> None:
    install("transformer = tests.models.recurrent:KIND")
    assert kind_names() == OWN
    assert find_kind("transformer").config is not RecurrentConfig


def test_a_broken_package_is_named_and_keeps_nobody_from_working(
    install: Install, command: Command
) -> None:
    install("broken = nowhere_at_all:KIND")
    assert load_config("tiny").model.kind == "transformer"
    with pytest.raises(ConfigError, match=r"'broken' is installed but cannot be loaded: .*nowhere"):
        load_config("tiny", ["model.kind=broken"])
    listed = command("presets")
    assert listed.code == 0
    assert "big" in listed.out
    assert "nowhere_at_all" in listed.out


@pytest.fixture
def awkward(install: Install) -> None:
    install("awkward = tests.models.awkward:KIND")


@pytest.mark.usefixtures("awkward")
def test_several_numbers_are_a_setting_too(tmp_path: Path) -> None:
    settings = tmp_path / "mine.yaml"
    settings.write_text("model: {kind: awkward, widths: [3, 5, 3]}\n")
    config = load_config(settings)
    assert config.model.model_dump()["widths"] == (3, 5, 3)
    settings.write_text(to_yaml(config))
    assert load_config(settings) == config
    assert Config.from_tree(config.model_dump(mode="json")) == config


@pytest.mark.usefixtures("awkward")
def test_tied_weights_are_tied_again_when_they_are_loaded(tmp_path: Path) -> None:
    config = load_config_of_awkward()
    tokenizer = Tokenizer.learn([WORDS], kind="whitespace", vocab_size=VOCAB_SIZE)
    save_model(tmp_path, LoadedModel(build_model(config.model), config, tokenizer))
    parameters = dict(load_model(tmp_path).model.named_parameters(remove_duplicate=False))
    assert parameters["same_embedding.weight"] is parameters["embedding.weight"]


def load_config_of_awkward() -> Config:
    shape = {"kind": "awkward", "vocab_size": VOCAB_SIZE, "d_model": 6, "d_recurrent": 5}
    return Config.from_tree({"model": shape})


@pytest.mark.usefixtures("awkward")
def test_it_trains_resumes_and_gives_its_moving_average(tmp_path: Path) -> None:
    for name, side in (("a.en", 0), ("a.de", 1)):
        lines = (pair[side] for pair in generate(60, seed=2))
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    run = {"checkpoint_steps": 3, "ema_decay": 0.5, "score_sentences": 0, "device": "cpu"}
    shape = {"kind": "awkward", "vocab_size": 280, "d_model": 6, "d_recurrent": 5}
    settings = {"model": shape, "training": {"steps": 6, "schedule": "paper"}, "run": run}
    src, tgt = tmp_path / "a.en", tmp_path / "a.de"
    whole = train(src=src, tgt=tgt, out=tmp_path / "whole", settings=settings)
    half = settings | {"training": {"steps": 3, "schedule": "paper"}}
    train(src=src, tgt=tgt, out=tmp_path / "halves", settings=half)
    train(src=src, tgt=tgt, out=tmp_path / "halves", settings=settings)
    assert whole.reason == "6 steps are made"
    last = "checkpoints/step-000000000006/ema.safetensors"
    assert (tmp_path / "halves" / last).read_bytes() == (tmp_path / "whole" / last).read_bytes()
    assert "moving average" in (tmp_path / "whole" / "README.md").read_text(encoding="utf-8")
