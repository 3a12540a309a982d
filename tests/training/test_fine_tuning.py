"""A run that starts from a model keeps its architecture and vocabulary."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.models.recurrent import RecurrentConfig
from transduce.config import kinds
from transduce.config.schema import Config, DataConfig, ModelConfig, Tree
from transduce.errors import ConfigError
from transduce.models.build import build_model
from transduce.models.folder import LoadedModel, save_model
from transduce.models.transformer.settings import TransformerConfig
from transduce.text.tokenizer import Tokenizer
from transduce.training.run.fine_tuning import check_same_model, settings_from, starting_model

TOKENIZER = Tokenizer.learn(["a b c d e"], kind="whitespace", vocab_size=9)


@pytest.fixture(autouse=True)
def recurrent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another kind of model beside the Transformer."""
    monkeypatch.setitem(kinds._OWN, "recurrent", "tests.models.recurrent")
    kinds.find_kind.cache_clear()
    yield
    kinds.find_kind.cache_clear()


def transformer(**changes: object) -> TransformerConfig:
    shape = {"vocab_size": 9, "n_layers": 1, "d_model": 8, "d_ff": 8, "h": 2, "p_drop": 0.3}
    return TransformerConfig.model_validate(shape | changes)


def saved(folder: Path, model: ModelConfig, *, task: str = "translation") -> str:
    config = Config(model=model, data=DataConfig(task=task))
    save_model(folder, LoadedModel(build_model(model, seed=1), config, TOKENIZER))
    return str(folder)


def settled(folder: str, given: Tree) -> Config:
    config = Config.from_tree(settings_from(folder, given))
    check_same_model(config, folder)
    return config


def test_the_model_gives_its_shape_and_vocabulary(tmp_path: Path) -> None:
    folder = saved(tmp_path / "model", transformer())
    config = settled(folder, {"training": {"steps": 7}})
    assert config.model == transformer()
    assert config.data.tokenizer == str(tmp_path / "model" / "tokenizer.json")
    assert config.training.learning_rate == 2e-4
    assert settled(folder, {"training": {"learning_rate": 0.5}}).training.learning_rate == 0.5


def test_the_task_is_that_of_the_model_unless_another_is_given(tmp_path: Path) -> None:
    folder = saved(tmp_path / "model", transformer(), task="parsing")
    assert settled(folder, {}).data.task == "parsing"
    assert settled(folder, {"data": {"task": "translation"}}).data.task == "translation"


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_what_the_weights_do_not_depend_on_may_change(tmp_path: Path, positions: str) -> None:
    folder = saved(tmp_path / "model", transformer(positions=positions, max_positions=50))
    changed = settled(folder, {"model": {"p_drop": 0.1, "p_drop_ff": 0.2}})
    assert (changed.model.p_drop, starting_model(changed, folder).config.model.p_drop) == (0.1, 0.1)
    longer: Tree = {"model": {"max_positions": 60}}
    if positions == "sinusoidal":
        assert settled(folder, longer).model.max_length == 60
    else:
        with pytest.raises(
            ConfigError, match=r"model\.max_positions=60, but the model in .* has 50"
        ):
            settled(folder, longer)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model": {"d_ff": 9}}, r"model\.d_ff=9, but the model in .* has 8: settings that its"),
        ({"model": {"kind": "recurrent"}}, r"model\.kind=recurrent, but .* is of the kind transf"),
        ({"data": {"tokenizer": "x.json"}}, r"data\.tokenizer: a run that starts from a model"),
        ({"model": None}, "model must be a mapping of names to values"),
    ],
)
def test_another_model_is_refused(tmp_path: Path, given: Tree, message: str) -> None:
    folder = saved(tmp_path / "model", transformer())
    with pytest.raises(ConfigError, match=message):
        settled(folder, given)


def test_every_kind_of_model_can_be_started_from(tmp_path: Path) -> None:
    model = RecurrentConfig(vocab_size=9, d_model=8, d_recurrent=6)
    folder = saved(tmp_path / "model", model)
    assert settled(folder, {}).model == model
    assert settled(folder, {"model": {"p_drop": 0.4}}).model.p_drop == 0.4
    with pytest.raises(ConfigError, match=r"model\.d_recurrent=7, but the model in .* has 6"):
        settled(folder, {"model": {"d_recurrent": 7}})
    with pytest.raises(ConfigError, match=r"model\.kind=transformer, but .* the kind recurrent"):
        settled(folder, {"model": {"kind": "transformer"}})
