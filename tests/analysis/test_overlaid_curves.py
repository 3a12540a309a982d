"""The dev scores of several runs in one picture."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from transduce.analysis.overlaid_curves import draw_overlaid
from transduce.analysis.runs import group_runs, read_runs
from transduce.training.run.events import Scored
from transduce.training.run.journal import Journal


def scored(step: int, loss: float, bleu: float, *, seconds: float) -> Scored:
    found = Scored(step, loss, math.exp(loss), best=True, seconds=seconds)
    return replace(found, metric="BLEU", score=bleu, signature="sig")


def make_run(folder: Path, *scores: Scored, dev_set: str = "d") -> None:
    folder.mkdir(parents=True)
    with Journal(folder / "journal.jsonl") as journal:
        for event in scores:
            journal(event)
    (folder / "config.yaml").write_text("model: {}\n")
    (folder / "provenance.json").write_text(f'{{"dev_set": "{dev_set}", "tokenizer": "v"}}')


@pytest.fixture
def figure(monkeypatch: pytest.MonkeyPatch) -> Figure:
    """The figure that will be drawn, to look at what is in it."""
    made = Figure(figsize=(10, 7), layout="constrained")
    monkeypatch.setattr("matplotlib.figure.Figure", lambda **_: made)
    return made


def draw(folder: Path, path: Path) -> None:
    draw_overlaid(group_runs(read_runs([folder], tell=lambda line: pytest.fail(line))), path)


def test_every_run_has_a_line_by_steps_and_by_minutes(tmp_path: Path, figure: Figure) -> None:
    runs = tmp_path / "runs"
    fast = [scored(10, 3.0, 5.0, seconds=60), scored(20, 2.0, 9.0, seconds=120)]
    make_run(runs / "fast", *fast)
    make_run(runs / "slow", scored(10, 2.5, 6.0, seconds=600), scored(20, math.nan, 7.0, seconds=1))
    draw(runs, tmp_path / "all.png")
    assert imread(tmp_path / "all.png").shape[2] == 4
    titles = [panel.get_title(loc="left") for panel in figure.axes]
    assert titles == [
        "dev loss, nats per target token, by step",
        "dev loss, nats per target token, by minutes",
        "dev BLEU, by step",
        "dev BLEU, by minutes",
    ]
    lines = [[np.array(line.get_data()).tolist() for line in panel.lines] for panel in figure.axes]
    assert lines[0] == [[[10, 20], [3.0, 2.0]], [[10], [2.5]]]
    assert lines[1] == [[[1, 2], [3.0, 2.0]], [[10], [2.5]]]
    assert lines[2] == [[[10, 20], [5.0, 9.0]], [[10, 20], [6.0, 7.0]]]
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["fast", "slow"]


def test_runs_that_cannot_be_compared_are_marked(tmp_path: Path, figure: Figure) -> None:
    runs = tmp_path / "runs"
    make_run(runs / "a", scored(10, 3.0, 5.0, seconds=60))
    make_run(runs / "b", scored(10, 2.0, 6.0, seconds=60), dev_set="other")
    draw(runs, tmp_path / "all.pdf")
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a (group 1)", "b (group 2)"]
    assert [line.get_linestyle() for line in figure.axes[0].lines] == ["-", "--"]
    assert figure.get_suptitle().endswith("compare within one")


def test_runs_without_scores_and_with_names_in_other_scripts(tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "実験")
    draw(tmp_path / "runs", tmp_path / "all.png")
    assert (tmp_path / "all.png").exists()


def test_more_runs_than_colours_are_told_apart_by_dashes(tmp_path: Path, figure: Figure) -> None:
    for number in range(12):
        make_run(tmp_path / "runs" / f"{number}", scored(10, 3.0 + number, 5.0, seconds=60))
    draw(tmp_path / "runs", tmp_path / "all.png")
    looks = {(line.get_color(), line.get_linestyle()) for line in figure.axes[0].lines}
    assert len(looks) == 12
