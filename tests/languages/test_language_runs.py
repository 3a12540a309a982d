"""Runs that train one model for several languages, through the real command."""

import json
import shutil
from pathlib import Path

import pytest

import transduce
from tests.command import Command
from tests.languages.toy_languages import changes, write_texts
from transduce.errors import InputError


def training(folder: Path, out: Path, *others: str, **settings: object) -> list[str]:
    """Return the arguments of a run on the texts of a folder."""
    texts = [f"--text={path}" for path in sorted(folder.glob("train.*"))]
    dev = [f"--dev-text={path}" for path in sorted(folder.glob("dev.*"))]
    sets = [f"--set={change}" for change in changes(**settings)]
    return ["train", *texts, *dev, f"--out={out}", *others, *sets]


def test_a_model_of_one_direction_takes_no_language(texts: Path, tmp_path: Path) -> None:
    out = tmp_path / "one"
    transduce.train(
        texts=[texts / "train.aa", texts / "train.bb"],
        out=out,
        settings=changes(data__directions="[aa-bb]", training__steps=2),
    )
    model = transduce.load(out)
    assert model.languages == ()
    model.translate(["red cat"])
    with pytest.raises(InputError, match="to=bb: this model has no tags"):
        model.translate(["red cat"], to="bb")


@pytest.mark.exhaustive(after=1)
@pytest.mark.parametrize("tag_on", ["target", "source"])
def test_everything_together_resumes_to_the_bit(texts: Path, tmp_path: Path, tag_on: str) -> None:
    """Temperature, mix, stages, noise and subword dropout.

    The run is stopped where a stage ends, and after that.
    """
    write_texts(tmp_path, "more", 40, seed=7, languages=("aa", "cc"))
    files = [*sorted(texts.glob("train.*")), *sorted(tmp_path.glob("more.*"))]
    settings = changes(
        data__temperature=4,
        data__stages="[{until: 0.5, mix: {train: 0.3, more: 2}}, {mix: {more: 3.5}}]",
        data__augment="{typos: 0.5, upper: 0.3}",
        data__subword_dropout=0.2,
        data__tag_on=tag_on,
        training__steps=10,
        run__checkpoint_steps=5,
        model__p_drop=0.1,
        run__score_sentences=6,
    )

    def run(out: Path, stops: tuple[int, ...]) -> Path:
        for stop in stops:
            made = iter(range(stop))
            transduce.train(
                texts=files,
                out=out,
                settings=settings,
                cache=tmp_path / "cache",
                should_stop=lambda made=made: next(made, None) is None,  # type: ignore[misc]
            )
        transduce.train(texts=files, out=out, settings=settings, cache=tmp_path / "cache")
        return out

    whole = run(tmp_path / "whole", ())
    cut = run(tmp_path / "cut", (5, 2))
    assert (whole / "model.safetensors").read_bytes() == (cut / "model.safetensors").read_bytes()
    losses = [
        [event["loss"] for event in events if event["event"] == "Scored"]
        for events in (
            [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
            for out in (whole, cut)
        )
    ]
    assert losses[0] == losses[1]
    model = transduce.load(cut)
    assert sorted(model.languages) == ["aa", "bb", "cc"]
    model.translate(["red cat"], to="bb", prefixes=["de"])


def test_a_run_says_which_settings_differ(
    tagged_source: Path, texts: Path, tmp_path: Path, command: Command
) -> None:
    shutil.copytree(tagged_source, tmp_path / "run")
    asked = training(texts, tmp_path / "run", training__steps=1, data__tag_on="source")
    assert command(*asked).code == 0, "finished"
    other = command(*asked, "--set=data.temperature=3").mistake()
    assert "data.temperature is 1.0 there, not 3" in other
    moved = tmp_path / "moved"
    shutil.copytree(texts, moved)
    again = training(moved, tmp_path / "run", training__steps=2, data__tag_on="source")
    assert command(*again).code == 0, "the same texts in other places"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--text=x.aa"], "two languages or more"),
        (["--text=x.aa", "--text=y/x.aa"], "two languages or more"),
        (["--text=x.aa", "--text=bb=y.txt"], "no other is named x; name them alike, as train.en"),
        (["--text=x"], "write en=x"),
        (["--text=x.aa", "--text=aa=x.txt"], "x.aa is in aa too"),
        (["--text=x.tsv", "--text=x.aa"], "write en=x.tsv"),
        (["--text=x.aa", "--text=x.bb", "--src=a.en"], "two forms of the training text"),
    ],
)
def test_mistakes_are_told(
    options: list[str], message: str, tmp_path: Path, command: Command
) -> None:
    assert message in command("train", f"--out={tmp_path / 'run'}", *options).mistake()
