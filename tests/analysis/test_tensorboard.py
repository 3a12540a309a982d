"""Event files are read back by TensorBoard itself."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import (  # type: ignore[import-untyped]
    EventAccumulator,
)

from transduce.analysis.tensorboard import EventFiles, available
from transduce.errors import InputError
from transduce.training.run.events import Event, Saved, Scored, Started, Stepped

Points = list[tuple[int, float]]


def stepped(step: int, loss: float) -> Stepped:
    return Stepped(step, 1, 0.5, loss, 0.125 * step, 2.5, 100 * step, 50.0, 2.0 * step, 0.0)


def scored(step: int, loss: float, bleu: float | None = None) -> Scored:
    metric = None if bleu is None else "BLEU"
    return Scored(
        step, loss, loss * 2, best=True, seconds=0.0, metric=metric, score=bleu, signature="sig"
    )


def write(folder: Path, step: int, *events: Event) -> None:
    with EventFiles(folder, step) as files:
        for event in events:
            files(event)


def read(folder: Path) -> dict[str, Points]:
    found = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    return {
        tag: [(point.step, point.value) for point in found.Scalars(tag)]
        for tag in found.Tags()["scalars"]
    }


def test_tensorboard_reads_the_same_numbers(tmp_path: Path) -> None:
    write(
        tmp_path / "new" / "folder",
        0,
        Started(0, 10, 10, "cpu", "float32", 1, 0.0),
        scored(0, 9.5),
        stepped(1, 8.5),
        stepped(2, 7.5),
        scored(2, 6.5, 12.5),
        Saved(2, "somewhere"),
    )
    assert read(tmp_path / "new" / "folder") == {
        "train/loss": [(1, 8.5), (2, 7.5)],
        "train/learning_rate": [(1, 0.125), (2, 0.25)],
        "train/gradient_norm": [(1, 2.5), (2, 2.5)],
        "train/tokens_per_s": [(1, 50.0), (2, 50.0)],
        "dev/loss": [(0, 9.5), (2, 6.5)],
        "dev/perplexity": [(0, 19.0), (2, 13.0)],
        "dev/bleu": [(2, 12.5)],
    }


def test_a_resumed_run_replaces_the_points_of_later_steps(tmp_path: Path) -> None:
    steps = [event for step in range(1, 8) for event in (stepped(step, 5.0), scored(step, 5.0))]
    write(tmp_path, 0, *steps)
    write(tmp_path, 4, stepped(5, 4.0), scored(5, 4.0))
    found = read(tmp_path)
    assert found["train/loss"] == [*((step, 5.0) for step in range(1, 5)), (5, 4.0)]
    assert found["dev/loss"] == found["train/loss"]
    write(tmp_path, 0)
    assert read(tmp_path)["train/loss"] == []


def test_points_are_written_at_once_and_a_torn_one_spoils_no_other(tmp_path: Path) -> None:
    files = EventFiles(tmp_path, 0)
    files(stepped(1, 5.0))
    files(stepped(2, 4.0))
    assert read(tmp_path)["train/loss"] == [(1, 5.0), (2, 4.0)]
    files.close()
    [path] = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-3])
    write(tmp_path, 1, stepped(2, 3.0))
    assert read(tmp_path)["train/loss"] == [(1, 5.0), (2, 3.0)]


def test_numbers_beyond_float32_are_infinite(tmp_path: Path) -> None:
    write(tmp_path, 0, stepped(1, math.nan), replace(scored(1, 9.0), perplexity=1e300))
    found = read(tmp_path)
    assert math.isnan(found["train/loss"][0][1])
    assert found["dev/perplexity"] == [(1, math.inf)]


def test_another_metric_has_its_own_tag(tmp_path: Path) -> None:
    event = replace(scored(3, 9.0), metric="Bracket F1", score=91.5, signature="sig")
    write(tmp_path, 0, event)
    assert read(tmp_path)["dev/bracket_f1"] == [(3, 91.5)]


def test_without_the_package_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert available()
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert not available()
    with pytest.raises(InputError, match=r"pip install 'transduce\[plot\]'"):
        EventFiles(tmp_path, 0)


def test_a_folder_that_cannot_be_made_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"cannot write .*file"):
        EventFiles(tmp_path / "file", 0)
