"""Kinds of model that a format cannot express are refused before anything is written."""

from collections.abc import Callable
from pathlib import Path

import pytest

import transduce
from tests.export.bigram import BigramConfig
from tests.translation.likely import learnt_tokenizer, saved
from transduce.config import kinds
from transduce.config.schema import Config, ModelConfig
from transduce.errors import InputError
from transduce.export import ctranslate2, huggingface
from transduce.export.ctranslate2 import export_ctranslate2
from transduce.export.huggingface import export_huggingface
from transduce.models.base import Abilities
from transduce.models.build import build_model
from transduce.models.folder import LoadedModel
from transduce.models.transformer.model import Transformer
from transduce.models.transformer.settings import TransformerConfig

Refusal = Callable[[ModelConfig], str | None]
REFUSALS: list[Refusal] = [ctranslate2.refusal, huggingface.refusal]


@pytest.fixture
def bigram(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model folder of that kind, which is installed as long as the test runs."""
    monkeypatch.setitem(kinds._OWN, "bigram", "tests.export.bigram")
    tree = {"model": {"kind": "bigram", "vocab_size": 500, "d_model": 8}}
    config = Config.from_tree(tree)
    loaded = LoadedModel(build_model(config.model), config, learnt_tokenizer())
    return saved(tmp_path / "bigram", loaded)


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_refusal_names_the_kind(refusal: Refusal) -> None:
    reason = refusal(BigramConfig())
    assert reason is not None
    assert reason.startswith("model.kind=bigram, but ")
    assert refusal(TransformerConfig()) is None


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_transformer_that_does_not_name_the_format_is_refused(
    refusal: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Transformer, "abilities", Abilities())
    assert "model.kind=transformer" in (refusal(TransformerConfig()) or "")


@pytest.mark.parametrize("export", [export_ctranslate2, export_huggingface])
def test_an_export_refuses_it_and_writes_nothing(
    export: Callable[[Path, Path], None], bigram: Path, tmp_path: Path
) -> None:
    if export is export_ctranslate2:
        pytest.importorskip("ctranslate2", reason="without it, that is the reason")
    with pytest.raises(InputError, match=r"cannot export .*bigram .*: model\.kind=bigram, but "):
        export(bigram, tmp_path / "out")
    assert list(tmp_path.iterdir()) == [bigram]


def test_auto_translates_it_with_torch_and_ctranslate2_is_refused(bigram: Path) -> None:
    pytest.importorskip("ctranslate2", reason="without it, auto is torch anyway")
    by_default, by_auto = (
        transduce.load(bigram, "cpu", engine=engine).translate(["A man sleeps."])
        for engine in (None, "auto")
    )
    assert by_auto == by_default
    with pytest.raises(InputError, match=r"model\.kind=bigram.* use the engine torch"):
        transduce.load(bigram, "cpu", engine="ctranslate2")
