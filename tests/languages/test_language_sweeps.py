"""Sweeps of models of several languages: equal budgets, and test sets in one of the languages."""

import shutil
from pathlib import Path

import pytest

from tests.data.preparing import PHASE
from tests.languages.toy_languages import SETTINGS
from transduce.config.schema import Tree
from transduce.sweeps.file import SweepBudget, SweepTest
from transduce.sweeps.plan import SweepRun
from transduce.sweeps.running.preparation import prepare_runs
from transduce.sweeps.running.translations import SweepTranslation


def sweep_run(texts: Path, folder: Path, **data: object) -> SweepRun:
    settings: Tree = {}
    for name, value in SETTINGS.items():
        section, _, key = name.partition(".")
        settings.setdefault(section, {})[key] = value
    languages = {code: str(texts / f"train.{code}") for code in ("aa", "bb", "cc")}
    settings["data"] |= {"corpora": {"train": languages}, "dev_pairs": 6} | data
    return SweepRun("row", 1, folder, settings, preset=None, grid={})


def test_an_epoch_has_the_tokens_of_its_directions(texts: Path, tmp_path: Path) -> None:
    """Two directions have twice the tokens of one, and half with a weight of 0.5."""

    def epochs(**data: object) -> float:
        run = sweep_run(texts, tmp_path / "run", **data)
        [found] = prepare_runs([run], tmp_path, SweepBudget(tokens=10_000), PHASE).values()
        return found

    both = epochs(directions=["aa-bb", "bb-aa"], tag_on="target")
    assert epochs(directions=["aa-bb", "bb-aa"], mix={"train": 0.5}) == pytest.approx(2 * both)
    assert epochs(directions=["aa-bb", "bb-aa", "cc-aa", "aa-cc"]) < 0.7 * both


def test_a_test_set_is_translated_into_the_language_of_its_references(
    learnt: Path, texts: Path, tmp_path: Path
) -> None:
    shutil.copytree(learnt, tmp_path / "run")
    run = sweep_run(texts, tmp_path / "run")
    test = SweepTest(name="test", src=str(texts / "test.aa"), tgt=str(texts / "test.cc"))
    SweepTranslation((test,), beam=1, alpha=0.6, cache=tmp_path).translate_missing(
        run, device="cpu"
    )
    assert run.hypotheses_file(test).read_text() == (texts / "test.cc").read_text()
