"""The picture of a run: drawn whatever happened in it."""

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from transduce.analysis import curves
from transduce.analysis.curves import available, draw_curves
from transduce.errors import InputError
from transduce.training.run.events import Event, RolledBack, Scored, Started, Stepped


def stepped(step: int, loss: float = 5.0) -> Stepped:
    return Stepped(step, 1, 0.5, loss, 1e-4 * step, 2.5, 100 * step, 50.0, 2.0 * step, 0.0)


def scored(step: int, loss: float, *, bleu: float | None = None, best: bool = False) -> Scored:
    found = Scored(step, loss, math.exp(loss), best=best, seconds=0.0)
    if bleu is None:
        return found
    return replace(found, metric="BLEU", score=bleu, signature="nrefs:1|tok:13a")


def by_error_rate(event: Event) -> Event:
    """The same scores of an error rate that decides which weights are the best."""
    if not isinstance(event, Scored):
        return event
    return replace(event, metric="WER", higher_is_better=False, best_by="metric")


def history(count: int, *, every: int, bleu: float | None = 20.0) -> list[Event]:
    events: list[Event] = [Started(0, 10, 10, "cpu", "float32", 1, 0.0)]
    for step in range(1, count + 1):
        events.append(stepped(step, 2 + 8 / step + 0.1 * (step % 3)))
        if step % every == 0:
            events.append(scored(step, 2 + 7 / step, bleu=bleu, best=True))
    return events


@pytest.fixture
def figure(monkeypatch: pytest.MonkeyPatch) -> Figure:
    """The figure that will be drawn, to look at what is in it."""
    made = Figure(figsize=(10, 6.4), layout="constrained")
    monkeypatch.setattr("matplotlib.figure.Figure", lambda **_: made)
    return made


def legend(figure: Figure, panel: int) -> list[str]:
    found = figure.axes[panel].get_legend()
    return [text.get_text() for text in found.get_texts()] if found else []


@pytest.mark.exhaustive(after=4)
@pytest.mark.parametrize(
    "events",
    [
        [],
        [Started(0, 10, 10, "cpu", "float32", 1, 0.0)],
        [stepped(1)],
        [scored(0, 9.0, best=True)],
        history(3, every=3),
        history(3, every=9),
        history(300, every=30, bleu=None),
        history(300, every=30, bleu=0.0),
        history(300, every=1),
        [stepped(1, math.nan), stepped(2, math.inf), scored(2, math.nan, bleu=math.nan)],
        [stepped(1), stepped(2, 1e30), *map(stepped, range(3, 99))],
        [replace(stepped(1), learning_rate=0.0, tokens_per_s=0.0, loss=0.0)],
        [scored(1, 800.0 / 2, best=True)],
        [by_error_rate(event) for event in history(300, every=30)],
        [by_error_rate(scored(1, 3.0, bleu=math.nan, best=True))],
    ],
)
def test_every_history_becomes_a_picture(tmp_path: Path, events: list[Event]) -> None:
    path = tmp_path / "curves.png"
    draw_curves(events, path)
    assert imread(path).shape == (960, 1500, 4)
    assert list(tmp_path.iterdir()) == [path]


def test_the_panels_have_titles_units_and_the_best_checkpoint(
    tmp_path: Path, figure: Figure
) -> None:
    events = [*history(40, every=10), scored(45, 3.0, bleu=19.0)]
    draw_curves(events, tmp_path / "curves.png")
    assert [panel.get_title(loc="left") for panel in figure.axes] == [
        "loss, nats per target token",
        "development BLEU",
        "learning rate",
        "source and target tokens per second",
    ]
    assert {panel.get_xlabel() for panel in figure.axes} == {"step"}
    assert legend(figure, 0) == [
        "training, label smoothing included",
        "development",
        "best: 2.175, perplexity 8.80, step 40",
    ]
    assert legend(figure, 1) == ["best by loss: 20.00, step 40"]
    bleu = figure.axes[1].get_legend()
    assert bleu is not None
    assert bleu.get_title().get_text() == "nrefs:1|tok:13a"


def test_a_metric_that_decides_is_marked_by_its_name(tmp_path: Path, figure: Figure) -> None:
    events = [by_error_rate(event) for event in history(40, every=10)]
    draw_curves(events, tmp_path / "curves.png")
    assert figure.axes[1].get_title(loc="left") == "development WER"
    assert legend(figure, 0)[-1] == "best by WER: 2.175, perplexity 8.80, step 40"
    assert legend(figure, 1) == ["best: 20.00, step 40"]


def test_after_a_change_of_metric_the_last_is_drawn(tmp_path: Path, figure: Figure) -> None:
    events: list[Event] = [scored(1, 3.0, bleu=5.0), by_error_rate(scored(2, 3.0, bleu=80.0))]
    draw_curves(events, tmp_path / "curves.png")
    assert figure.axes[1].get_title(loc="left") == "development WER"
    [line] = figure.axes[1].get_lines()
    assert np.asarray(line.get_xydata()).tolist() == [[2, 80.0]]


def test_without_a_metric_the_loss_has_the_whole_width(tmp_path: Path, figure: Figure) -> None:
    draw_curves(history(40, every=10, bleu=None), tmp_path / "curves.png")
    assert len(figure.axes) == 3
    assert figure.axes[0].get_position().width > 0.8


def test_long_runs_are_thinned_but_keep_their_extremes(tmp_path: Path, figure: Figure) -> None:
    events: list[Event] = [stepped(step) for step in range(1, 20_001)]
    events[777] = stepped(778, 9.0)
    events[15_000] = stepped(15_001, 1.0)
    draw_curves(events, tmp_path / "curves.png")
    lines = [line for panel in figure.axes for line in panel.get_lines()]
    assert max(len(np.asarray(line.get_xydata())) for line in lines) <= 2000
    rough, smooth = (np.asarray(line.get_xydata()) for line in figure.axes[0].get_lines())
    assert {(778, 9.0), (15_001, 1.0)} <= {(x, y) for x, y in rough}
    assert np.abs(smooth[:, 1] - 5).max() < 0.02
    assert smooth[[0, -1], 0].tolist() == [1, 20_000]


def test_the_smooth_line_is_the_mean_of_the_neighbours() -> None:
    x, y = np.arange(240.0), np.random.default_rng(0).normal(size=240)
    kept, means = curves._smoothed(x, y)
    assert kept.tolist() == x.tolist()
    assert means[0] == y[0]
    assert means[2] == y[:5].mean()
    assert means[100] == y[96:105].mean()
    assert means[-1] == y[-5:].mean()


def test_steps_made_again_are_drawn_once(tmp_path: Path, figure: Figure) -> None:
    first = [stepped(step, 9.0) for step in range(1, 6)]
    again = [stepped(step, 5.0) for step in range(3, 8)]
    draw_curves([*first, RolledBack(5, 2, "7, 8"), *again], tmp_path / "curves.png")
    rough = np.asarray(figure.axes[0].get_lines()[0].get_xydata())
    assert rough.tolist() == [[1, 9], [2, 9], *([step, 5] for step in range(3, 8))]


def test_an_older_picture_is_replaced_only_by_a_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "curves.png"
    draw_curves(history(3, every=3), path)
    before = path.read_bytes()

    def fail(_: Figure, target: Path, **__: object) -> None:
        target.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(InputError, match=r"cannot write .*curves.png: No space left on device"):
        draw_curves(history(30, every=3), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_drawing_loads_no_pyplot_and_importing_no_matplotlib(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from transduce.analysis.curves import draw_curves
assert not {"matplotlib", "torch"} & set(sys.modules)
draw_curves([], Path(sys.argv[1]))
assert not {"matplotlib.pyplot", "torch"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "curves.png")], check=True)


def test_without_matplotlib_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert available()
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"pip install 'transduce\[plot\]'"):
        draw_curves([], tmp_path / "curves.png")
