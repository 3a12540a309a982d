"""`transduce.translate_dataset`, without Ray: checks, columns as lists, and what is missing."""

import sys
from pathlib import Path
from typing import Any

import pytest

import transduce
from transduce.bulk import ray_dataset
from transduce.bulk.ray_dataset import ColumnTranslation
from transduce.bulk.ray_workers import ModelActor
from transduce.bulk.workers import ModelIdentity, ModelSource
from transduce.errors import InputError
from transduce.search.sample import Sampling
from transduce.translation.lines import MAX_LINE_CHARS
from transduce.translation.options import Options
from transduce.translation.translator import Translator

GREEDY = Options(beam=1)
TYPES = {"id": "int64", "text": "string", "title": "large_string", "tags": "struct<a: string>"}


@pytest.fixture(scope="module")
def translator(model: Path) -> Translator:
    return ModelSource((model,), "cpu").load()


def work(columns: dict[str, str] | None = None, **others: Any) -> ColumnTranslation:
    given: dict[str, Any] = {"options": GREEDY, "has_scores": True, "window": 3}
    return ColumnTranslation({"text": "de"} if columns is None else columns, **given | others)


def test_rows_without_a_text_have_no_translation(translator: Translator) -> None:
    texts = [None, "A dog.", "", "  ", None, "The dogs see a bird.", "A dog.", "A cat."]
    found = list(work().cells(translator, "text", texts))
    assert [one is None for one in found] == [text is None for text in texts]
    present = [text for text in texts if text is not None]
    alone = [translator.translate([text], GREEDY)[0].text for text in present]
    assert [one.text for one in found if one is not None] == alone
    assert alone[0] == alone[4] != ""
    assert alone[1:3] == ["", ""]
    assert list(work().cells(translator, "text", [])) == []
    assert list(work().cells(translator, "text", [None])) == [None]


def test_a_text_that_is_too_long_is_named_by_its_column(translator: Translator) -> None:
    with pytest.raises(InputError, match="a text of column text has 500,001 characters"):
        list(work().cells(translator, "text", ["A dog.", "a" * (MAX_LINE_CHARS + 1)]))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"txt": "de"}, r"no column txt \(did you mean text\?\): its columns are id, text, title"),
        ({"id": "de"}, "column id is of type int64, but must be text"),
        ({"tags": "de"}, "column tags is of type struct"),
        ({"text": "id"}, "there would be two columns id"),
        ({"text": "text"}, "there would be two columns text"),
        ({"text": "de", "title": "de"}, "there would be two columns de"),
        ({"text": "de", "title": "de_score"}, "there would be two columns de_score"),
    ],
)
def test_columns_that_do_not_fit_are_named(columns: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        work(columns).check(TYPES)


@pytest.mark.parametrize(
    "text", ["dictionary<values=string, indices=int32, ordered=0>", "null", str(object)]
)
def test_columns_with_text_fit(text: str) -> None:
    work({"text": "de", "title": "title_de"}).check(TYPES | {"text": text})
    work({"text": "de"}, has_scores=False).check(TYPES | {"de_score": "double"})


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"columns": {}}, "name a column with text"),
        ({"window": 0}, "a window of 0 rows: use 1 or more"),
        ({"options": Options(sampling=Sampling())}, "rows have no numbers that noise could follow"),
    ],
)
def test_what_makes_no_sense_is_refused(others: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        work(**others)


def test_a_missing_extra_is_one_line(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for missing in ("ray", "pyarrow"):
        monkeypatch.setattr(
            ray_dataset, "find_spec", lambda name, gone=missing: None if name == gone else sys
        )
        with pytest.raises(InputError, match=r"^Ray Data is not installed: pip install 'transduce"):
            transduce.translate_dataset(model, object())


def test_an_actor_refuses_another_model(model: Path, translator: Translator) -> None:
    source, known = ModelSource((model,), "cpu"), ModelIdentity.of(translator)
    ray_dataset.ColumnTranslator(work(), source, known, None)
    other = ModelIdentity(("0",), known.engine, known.device)
    with pytest.raises(InputError, match=r"has another model in .*: use a folder that all share"):
        ray_dataset.ColumnTranslator(work(), source, other, None)


def test_the_first_node_loads_absolute_names_from_anywhere(
    model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    _, found = ModelActor().load(ModelSource((model.absolute(),), "cpu"), None, None)
    assert isinstance(found, ModelIdentity)
    assert Path.cwd() == tmp_path


def test_each_actor_leaves_a_core_for_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    def needed(*nodes: dict[str, float], device: str = "auto") -> tuple[Any, ...]:
        found = [{"Resources": node} for node in nodes]
        monkeypatch.setattr("transduce.bulk.ray_workers.living_nodes", lambda: found)
        return ray_dataset._resources(device)

    assert needed({"CPU": 8}, {"CPU": 16}) == ({"num_cpus": 7, "num_gpus": 0}, 3, 8)
    assert needed({"CPU": 1}) == ({"num_cpus": 0, "num_gpus": 0}, 1, 1)
    assert needed({"CPU": 8, "GPU": 8}) == ({"num_cpus": 0, "num_gpus": 1}, 8, None)
    with pytest.raises(InputError, match="device cuda: no node of the cluster has a GPU"):
        needed({"CPU": 8}, device="cuda")
