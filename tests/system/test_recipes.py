"""Every recipe runs unchanged, on generated text; those of the paper have the paper's numbers."""

import lzma
import os
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from transduce.analysis import curves
from transduce.cli.app import app
from transduce.config.load import load_config, read_recipe
from transduce.config.schema import Config, DataConfig, merge, setting_names
from transduce.data.corpus import Pair
from transduce.data.public.catalog import CORPORA, Split
from transduce.grammar import split
from transduce.grammar.generated.corpus import GeneratedTask, split_task
from transduce.models.folder import load_model
from transduce.models.transformer.settings import TransformerConfig

ROOT = Path(__file__).parents[2]
RECIPES = {path.stem: path for path in sorted((ROOT / "recipes").glob("*.yaml"))}
WMT14 = [name for name in RECIPES if name.startswith("wmt14_")]

SMALL = [
    "model.vocab_size=300",
    "model.n_layers=1",
    "model.d_model=16",
    "model.d_ff=32",
    "model.h=2",
    "training.steps=2",
    "run.device=cpu",
]
"""A small shape and few steps; all other settings are the recipe's."""


def write_lines(name: str, lines: list[str]) -> None:
    path = Path(name)
    assert not path.is_absolute(), name
    assert ".." not in path.parts, name
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(lzma.compress(text) if path.suffix == ".xz" else text)


def write_trees(data: DataConfig) -> None:
    """Write a few trees to the files that a recipe names."""
    parts = split_task(GeneratedTask("trees", 3, 12), train=60, dev=8, test=8, seed=1)
    for names, part in ((data.src, "train"), (data.dev_src, "dev"), (data.held_out, "test")):
        for name in names:
            write_lines(name, [pair.tgt for pair in parts[part]])


def write_languages(data: DataConfig) -> None:
    """Write a few rows to the files of each language that a recipe names."""
    corpus = split(train=60, dev=4, test=4)
    for corpora, pairs in ((data.corpora, corpus.train), (data.dev_corpora, corpus.dev)):
        for texts in corpora.values():
            for language, name in texts.items():
                write_lines(name, [f"{pair.src} {language}" for pair in pairs])
    for name in data.held_out:
        write_lines(name, [pair.src for pair in corpus.test])


def write_text(data: DataConfig) -> None:
    """Write a little text to the files that a recipe names."""
    if data.task == "parsing":
        write_trees(data)
        return
    if data.corpora:
        write_languages(data)
        return
    corpus = split(train=40 * len(data.src), dev=4 * max(1, len(data.dev_src)), test=4)
    for sources, targets, pairs, odd in (
        (data.src, data.tgt, corpus.train, [Pair("Nothing.", "")]),
        (data.dev_src, data.dev_tgt, corpus.dev, []),
    ):
        for place, names in enumerate(zip(sources, targets, strict=True)):
            own = [*pairs[place :: len(sources)], *odd]
            for side, name in enumerate(names):
                write_lines(name, [pair[side] for pair in own])
    for name in data.held_out:
        write_lines(name, [text for pair in corpus.test for text in pair])


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_trains(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(curves, "available", lambda: False)  # drawn elsewhere, and slow
    monkeypatch.setattr(os, "cpu_count", lambda: 1)  # so little text needs no second process
    wanted = load_config(RECIPES[name], SMALL)
    write_text(wanted.data)
    settings = [word for change in SMALL for word in ("--set", change)]
    done = CliRunner().invoke(app, ["train", str(RECIPES[name]), *settings])
    assert done.exit_code == 0, f"{done.output} {done.exception}"
    settled = load_model(Path("runs", name)).config
    assert settled.data.model_copy(update={"lines": "auto"}) == wanted.data
    if name in WMT14:  # state all that a run would otherwise choose by its text
        assert settled == wanted.with_changes({"data": {"lines": "sentences"}})


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_names_files_as_the_catalog_does(name: str) -> None:
    data = load_config(RECIPES[name]).data
    splits: dict[Split, tuple[str, ...]] = {
        "train": (*data.src, *data.tgt),
        "dev": (*data.dev_src, *data.dev_tgt),
        "test": data.held_out,
    }
    for part, files in splits.items():
        for folder in {Path(file).parent for file in files} & {Path("data", c) for c in CORPORA}:
            known = {text.name for text in CORPORA[folder.name].texts(part)}
            named = {Path(file).name for file in files if Path(file).parent == folder}
            assert named <= known, part
            if name in WMT14:
                assert named == known, part


PAPER_TRAINING = {"batch_tokens": 25_000, "schedule": "paper", "warmup_steps": 4000, "eps_ls": 0.1}
BIG_SHAPE = {"n_layers": 6, "d_model": 1024, "d_ff": 4096, "h": 16, "d_k": 64, "d_v": 64}
BIG_RUN = {"checkpoint_steps": 600, "average": 20}

PAPER = {
    "wmt14_ende_paper": {
        "model": {"n_layers": 6, "d_model": 512, "d_ff": 2048, "h": 8, "d_k": 64, "d_v": 64}
        | {"p_drop": 0.1, "vocab_size": 37_000},
        "data": {"subwords": "bpe"},
        "training": {"steps": 100_000, **PAPER_TRAINING},
        "run": {"checkpoint_steps": 1500, "average": 5, "precision": "float32"},
    },
    "wmt14_ende_big": {
        "model": BIG_SHAPE | {"p_drop": 0.3, "vocab_size": 37_000},
        "data": {"subwords": "bpe"},
        "training": {"steps": 300_000, **PAPER_TRAINING},
        "run": BIG_RUN,
    },
    "wmt14_enfr_big": {
        "model": BIG_SHAPE | {"p_drop": 0.1, "vocab_size": 32_000},
        "data": {"subwords": "wordpiece"},
        "training": {"steps": 300_000, **PAPER_TRAINING},
        "run": BIG_RUN,
    },
}
ADAM = {"beta_1": 0.9, "beta_2": 0.98, "epsilon": 1e-9, "learning_rate": None}


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_numbers(name: str) -> None:
    tree = load_config(RECIPES[name]).model_dump()
    expected = merge(PAPER[name], {"training": ADAM})
    assert merge(tree, expected) == tree
    _, stated = read_recipe(RECIPES[name])
    assert stated["training"] == PAPER[name]["training"], "or a run would choose them"


def departures(config: Config) -> set[str]:
    """Name the switches of docs/DEVIATIONS.md that are not as the paper has them."""
    text = (ROOT / "docs" / "DEVIATIONS.md").read_text(encoding="utf-8")
    table = text.partition("## Deviations behind a switch")[2].partition("## ")[0]
    switches = set(re.findall(r"^\| `(\w+\.\w+)", table, re.MULTILINE))
    names = setting_names(TransformerConfig)
    assert switches == {name for name in names if "deviation" in description(name)}
    usual = Config.from_tree({"model": {"h": config.model.model_dump()["h"]}})  # kv_heads follow
    return {name for name in switches if setting(config, name) != setting(usual, name)}


def setting(config: Config, name: str) -> object:
    section, _, key = name.partition(".")
    return getattr(getattr(config, section), key)


def description(name: str) -> str:
    section, _, key = name.partition(".")
    return type(getattr(Config(), section)).model_fields[key].description or ""


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_recipes_have_no_deviation(name: str) -> None:
    assert departures(load_config(RECIPES[name])) == set()


def test_ours_for_wmt14_departs_by_its_schedule_alone() -> None:
    assert departures(load_config(RECIPES["wmt14_ende_base"])) == {"training.schedule"}
