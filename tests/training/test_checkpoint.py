"""Checkpoints come back bit for bit, are complete or absent, and do not pile up."""

import json
import math
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.drawing import seeds
from transduce.errors import InputError, TransduceError
from transduce.tasks.base import MetricScore
from transduce.training.run.checkpoint import Checkpoint, Checkpoints, Progress
from transduce.training.run.scores import Criterion, Scores

OLD_RUN = Path(__file__).parents[1] / "fixtures" / "version_0_1" / "stopped"


def tensors(seed: int, size: int = 20) -> dict[str, Tensor]:
    """Draw tensors, with the values that a careless format would lose."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(size, 3, generator=generator)
    drawn[:4, 0] = torch.tensor([math.nan, math.inf, -0.0, 1e-42])
    return {"a.weight": drawn, "b": torch.randn((), generator=generator)}


def saved(checkpoints: Checkpoints, progress: Progress, *, size: int = 20) -> Checkpoint:
    return checkpoints.save(
        progress,
        weights=tensors(progress.step, size),
        moments=tensors(progress.step + 1, size),
        moving_average=None,
    )


def bits(found: dict[str, Tensor] | None) -> dict[str, bytes] | None:
    return None if found is None else {name: t.numpy().tobytes() for name, t in found.items()}


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def steps_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


counts = st.integers(0, 10**12 - 1)
scores = st.builds(
    Scores,
    loss=st.floats(0, 100),
    metric=st.none()
    | st.builds(
        MetricScore,
        name=st.text(),
        score=st.floats(-100, 100),
        signature=st.text(),
        higher_is_better=st.booleans(),
    ),
)
progresses = st.builds(
    Progress,
    step=counts,
    epoch=counts,
    batches_done=counts,
    epoch_batches=counts,
    packed=st.booleans(),
    tokens=counts,
    seconds=st.floats(0, 1e9),
    best=st.none() | scores,
    scorings_since_best=counts,
    skipped=counts,
    skipped_in_a_row=counts,
    rollbacks=counts,
    max_tokens=st.none() | counts,
    guard=st.tuples(st.floats(0, 100), st.floats(0, 1e6)),
)


@settings(max_examples=15)
@given(progress=progresses, found=st.none() | scores, seed=seeds, averages=st.booleans())
def test_what_is_saved_comes_back_bit_for_bit(
    progress: Progress, found: Scores | None, seed: int, averages: bool
) -> None:
    weights, moments = tensors(seed), tensors(seed + 1)
    average = tensors(seed + 2) if averages else None
    with tempfile.TemporaryDirectory() as name:
        checkpoints = Checkpoints(Path(name) / "checkpoints", keep_last=1, keep_best=1)
        written = checkpoints.save(
            progress, weights=weights, moments=moments, moving_average=average
        )
        if found is not None:
            written = checkpoints.add_scores(written, replace(progress, best=found), found)
        assert [written] == checkpoints.all() == [Checkpoint.read(written.folder)]
        assert written == checkpoints.newest()
        assert written.progress == (replace(progress, best=found) if found else progress)
        assert written.scores == found
        assert bits(written.weights()) == bits(weights)
        assert bits(written.moments()) == bits(moments)
        assert bits(written.moving_average()) == bits(average)


def scored_by(value: int, *, direction: int) -> Scores:
    """Scores that are worse the higher the value, by the loss (0) or by a metric."""
    if direction == 0:
        return Scores(float(value))
    metric = MetricScore("rate", -direction * float(value), "", higher_is_better=direction > 0)
    return Scores(loss=-float(value), metric=metric)  # the loss says the opposite


@settings(max_examples=12)
@given(
    losses=st.lists(st.none() | st.integers(1, 5), min_size=1, max_size=7),
    keep_last=st.integers(1, 3),
    keep_best=st.integers(1, 3),
    direction=st.sampled_from([-1, 0, 1]),
)
def test_kept_are_the_last_the_best_and_the_newest(
    losses: list[int | None], keep_last: int, keep_best: int, direction: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        checkpoints = Checkpoints(
            Path(name),
            keep_last=keep_last,
            keep_best=keep_best,
            criterion=Criterion(by_metric=direction != 0),
        )
        for step, loss in enumerate(losses):
            written = saved(checkpoints, Progress(step=step), size=4)
            checkpoints.prune()
            if loss is not None:
                found = scored_by(loss, direction=direction)
                checkpoints.add_scores(written, written.progress, found)
                checkpoints.prune()
        scored = [(loss, step) for step, loss in enumerate(losses) if loss is not None]
        newest = len(losses) - 1
        expected = {step for _, step in scored[-keep_last:]}
        resumable = {newest, max(0, newest - 1)}
        expected |= {step for _, step in sorted(scored)[:keep_best]} | resumable
        assert {found.step for found in checkpoints.all()} == expected
        assert [found.step for found in checkpoints.scored()] == sorted(
            step for _, step in scored if step in expected
        )
        assert steps_in(Path(name)) == [f"step-{step:012}" for step in sorted(expected)]
        to_go_on_from = checkpoints.newest()
        assert to_go_on_from is not None
        assert to_go_on_from.step == newest
        assert {path.parent.name for path in Path(name).rglob("optimiser.safetensors")} == {
            f"step-{step:012}" for step in resumable
        }


def test_where_nothing_is_there_is_nothing_to_go_on_from(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "none", keep_last=1, keep_best=1)
    assert checkpoints.newest() is None
    assert checkpoints.scored() == []


@pytest.fixture
def two(tmp_path: Path) -> Checkpoints:
    """A scored checkpoint of step 8 and a newer one of step 16."""
    checkpoints = Checkpoints(tmp_path / "checkpoints", keep_last=2, keep_best=1)
    first = saved(checkpoints, Progress(step=8))
    checkpoints.add_scores(first, first.progress, Scores(2.0))
    saved(checkpoints, Progress(step=16))
    checkpoints.prune()
    return checkpoints


def test_what_a_killed_process_left_is_neither_taken_nor_kept(two: Checkpoints) -> None:
    whole = content(two.folder)
    for name in ("step-000000000024.0123456789abcdef.making", "step-000000000004.removed"):
        left = two.folder / name
        shutil.copytree(two.folder / "step-000000000008", left)
        (left / "state.json").unlink()
    assert [found.step for found in two.all()] == [8, 16]
    two.prune()
    two.remove_leftovers()
    assert content(two.folder) == whole
    assert steps_in(two.folder) == ["step-000000000008", "step-000000000016"]


def test_a_removal_that_was_cut_short_does_not_stop_the_next(two: Checkpoints) -> None:
    left = two.folder / "step-000000000008.removed"
    left.mkdir()
    (left / "model.safetensors").write_bytes(b"half")
    Checkpoints(two.folder, keep_last=1, keep_best=1).prune()
    for step in (24, 32):
        written = saved(two, Progress(step=step))
        two.add_scores(written, written.progress, Scores(1.0))
        two.prune()
    assert steps_in(two.folder) == ["step-000000000024", "step-000000000032"]


def damage(state: str, **changes: Any) -> str:
    """Change a state as if nothing had noted its checksum."""
    tree = json.loads(state)
    del tree["checksum"]
    return json.dumps(tree | changes)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda _: "",
        lambda text: text[: len(text) // 2],
        lambda _: "[1, 2]",
        lambda _: "3",
        lambda text: damage(text, progress={}),
        lambda text: damage(text, progress=None),
        lambda text: damage(text, scores={"los": 1}),
        lambda text: damage(text, scores={"loss": 1.0, "metric": {"name": "BLEU"}}),
        lambda text: damage(text, scores=[1]),
        lambda text: "\x00" * len(text),
    ],
)
def test_a_damaged_state_is_named_with_what_to_do(two: Checkpoints, spoil: Any) -> None:
    path = two.folder / "step-000000000016" / "state.json"
    path.write_text(spoil(path.read_text()))
    with pytest.raises(InputError) as caught:
        two.newest()
    assert str(path) in str(caught.value)
    assert "is damaged" in str(caught.value)
    assert f"restore it from a copy, or delete {path.parent}" in str(caught.value)


def test_bytes_that_are_no_text_are_a_damaged_state(two: Checkpoints) -> None:
    (two.folder / "step-000000000016" / "state.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(InputError, match="is damaged"):
        two.newest()


def test_checkpoints_of_version_0_1_are_read() -> None:
    """Its only metric was BLEU, and its best was that of the lowest loss."""
    old = Checkpoints(OLD_RUN / "checkpoints", keep_last=5, keep_best=1)
    first, newest = old.all()[-2:]
    assert [first.step, newest.step] == [8, 16]
    assert first.scores == Scores(
        5.5546742634600905,
        MetricScore("BLEU", 0.0, "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"),
    )
    assert newest.progress.best == Scores(first.scores.loss)
    assert newest.progress.guard == (5.656179428100586, 16.0)
    assert newest == old.newest()


@pytest.mark.parametrize("loss", [None, 2.5])
def test_the_best_loss_of_version_0_1_is_the_best_so_far(two: Checkpoints, loss: object) -> None:
    path = two.folder / "step-000000000016" / "state.json"
    state = json.loads(path.read_text())
    del state["checksum"], state["progress"]["best"]
    state["progress"]["best_loss"] = loss
    state["scores"] = {"loss": 3.0, "bleu": None, "signature": ""}
    path.write_text(json.dumps(state))
    newest = two.newest()
    assert newest is not None
    assert newest.progress.best == (None if loss is None else Scores(2.5))
    assert newest.scores == Scores(3.0)


def test_one_from_before_batches_were_packed_has_padded_batches(two: Checkpoints) -> None:
    path = two.folder / "step-000000000016" / "state.json"
    state = json.loads(path.read_text())
    del state["checksum"], state["progress"]["packed"]
    path.write_text(json.dumps(state))
    newest = two.newest()
    assert newest is not None
    assert newest.progress == Progress(step=16, packed=False)


def test_another_format_is_said_to_be_another_versions(two: Checkpoints) -> None:
    path = two.folder / "step-000000000016" / "state.json"
    path.write_text(damage(path.read_text(), format=99))
    with pytest.raises(InputError, match="has format 99 but this version reads 1: use the version"):
        two.newest()


def test_without_the_newest_the_one_before_is_gone_on_from(two: Checkpoints) -> None:
    shutil.rmtree(two.folder / "step-000000000016")
    newest = two.newest()
    assert newest is not None
    assert newest.step == 8


def test_without_both_no_older_one_is_gone_on_from(two: Checkpoints) -> None:
    """Only their weights are kept, and to go on with those would not be the same run."""
    saved(two, Progress(step=24))
    two.prune()
    for step in (16, 24):
        shutil.rmtree(two.folder / f"step-{step:012}")
    with pytest.raises(InputError, match=r"has its optimiser\.safetensors.*--fresh"):
        two.newest()


@contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))


@pytest.mark.parametrize("size", [0, 300, 100_000])
def test_what_cannot_be_written_leaves_the_one_before_whole(two: Checkpoints, size: int) -> None:
    whole = content(two.folder)
    with (
        no_file_longer_than(size),
        pytest.raises(
            TransduceError,
            match=r"the checkpoint of step 24 \(.+\); the one of step 16 is intact: free some disk",
        ),
    ):
        saved(two, Progress(step=24), size=20_000)
    assert content(two.folder) == whole
    assert saved(two, Progress(step=24)) == two.newest()


def test_scores_that_cannot_be_written_leave_the_checkpoint_unscored(two: Checkpoints) -> None:
    newest = two.newest()
    assert newest is not None
    with no_file_longer_than(10), pytest.raises(TransduceError, match="free some disk space"):
        two.add_scores(newest, newest.progress, Scores(1.0))
    assert two.newest() == newest
    two.add_scores(newest, newest.progress, Scores(1.0))
    assert [found.step for found in two.scored()] == [8, 16]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    options = ["-t", "tmpfs", "-o", "size=256k", "tmpfs"]
    if mount is None or subprocess.run([mount, *options, folder], check=False).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield folder
    subprocess.run(["umount", folder], check=True)  # noqa: S607 - where mount is, it is


def test_a_full_disk_is_an_error_that_says_so(small_disk: Path) -> None:
    checkpoints = Checkpoints(small_disk / "checkpoints", keep_last=2, keep_best=1)
    first = saved(checkpoints, Progress(step=8), size=5_000)
    whole = content(small_disk)
    for _ in range(2):  # the first try leaves nothing behind that would fill the disk
        with pytest.raises(TransduceError, match=r"\(.*No space left on device.*\); .*step 8 is"):
            saved(checkpoints, Progress(step=16), size=8_000)
        assert content(small_disk) == whole
        assert checkpoints.newest() == first
    assert saved(checkpoints, Progress(step=16), size=100) == checkpoints.newest()
