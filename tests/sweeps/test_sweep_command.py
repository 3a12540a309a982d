"""`transduce sweep` computes what is missing, and a run that fails does not stop the others."""

import multiprocessing
from collections import Counter
from pathlib import Path

import pytest

from tests.command import Command, start
from tests.sweeps.small_sweeps import STEPS, products, small_plan, sweep_file, write_texts
from transduce.sweeps import report as report_module
from transduce.sweeps.running.runner import SweepWatcher, run_sweep
from transduce.sweeps.running.status import RunStatus
from transduce.sweeps.running.worker import Failed, Message
from transduce.training.run.events import Started, Stepped
from transduce.training.run.journal import read_journal

pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("texts"))


def journal_sizes(out: Path) -> dict[str, int]:
    return {path.parent.parent.name: path.stat().st_size for path in out.glob("runs/*/*/journal*")}


class Killer(SweepWatcher):
    """Kills the process of each attempt of a row, as a machine without memory would."""

    def __init__(self, row: str, attempts: int) -> None:
        self._row, self._attempts = row, attempts
        self.failures: list[tuple[str, str]] = []

    def told(self, status: RunStatus, message: Message) -> None:
        if isinstance(message, Failed):
            self.failures.append((status.run.variation, message.message))
        is_its = status.run.variation == self._row and status.attempts <= self._attempts
        if is_its and isinstance(message, Started):
            for process in multiprocessing.active_children():
                process.kill()


def test_two_at_once_compute_the_same_as_one_after_the_other(
    command: Command, texts: Path, tmp_path: Path
) -> None:
    file, one, two = sweep_file(tmp_path / "s.yaml", texts), tmp_path / "one", tmp_path / "two"
    done = command("sweep", file, "--out", one)
    assert done.code == 0, done.err
    heading, _, *lines = done.out.splitlines()
    assert " ".join(heading.split()) == ("row d_ff PPL BLEU, test against base BLEU, dev")
    assert [line.split()[:2] for line in lines] == [["base", "32"], ["d_ff=64", "64"]]
    assert command("sweep", "--report", one).out == done.out
    assert "base, seed 1: starts\n" in done.err
    assert "2 of 2 runs finished" in done.err
    assert command("sweep", file, "--out", two, "--at-once", "2").code == 0
    assert len(products(one)) == 4
    assert products(one) == products(two)
    assert (one / "results.md").exists()
    assert len(list((one / "cache").glob("subwords-*"))) == 1, "learnt once, for all"
    assert not list(one.glob("runs/*/*/data"))

    sizes = journal_sizes(one)
    again = command("sweep", file, "--out", one)
    assert (again.code, journal_sizes(one)) == (0, sizes)
    assert "2 runs, 2 finished before" in again.err
    listed = command("runs", one).out
    assert "runs/base/seed-1" in listed
    assert "runs/d_ff=64/seed-1" in listed
    assert "one/runs/base/seed-1" in command("runs", tmp_path).out

    changed = sweep_file(file, texts, variations=[{"name": "d_ff=64", "set": {"model.d_ff": 128}}])
    message = command("sweep", changed, "--out", one).mistake()
    assert message.startswith("row 'd_ff=64' has begun with other settings: model.d_ff is 64 there")
    for steps in (STEPS - 1, STEPS + 1):
        other = sweep_file(file, texts, budget={"steps": steps})
        message = command("sweep", other, "--out", one).mistake()
        assert message.startswith(f"row 'base' has begun with training.steps=12, not {steps}, and")
        assert "choose another --out" in message
    assert journal_sizes(one) == sizes


def test_a_run_whose_budget_was_changed_is_marked(
    command: Command, texts: Path, tmp_path: Path
) -> None:
    file, out = sweep_file(tmp_path / "s.yaml", texts, variations=[], test=[]), tmp_path / "out"
    assert command("sweep", file, "--out", out).code == 0
    run = out / "runs" / "base" / "seed-1"
    assert command("train", "--out", run, "--steps", str(STEPS + 2)).code == 0
    report = command("sweep", "--report", out)
    told = "base, seed 1: its budget was changed at step 12: steps 12 → 14: a run that goes on past"
    assert told in report.out
    assert told in (out / "results.md").read_text(encoding="utf-8")


def test_without_matplotlib_the_command_says_that_there_are_no_pictures(
    command: Command, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_module, "available", lambda: False)
    file = sweep_file(tmp_path / "s.yaml", texts, variations=[], test=[])
    done = command("sweep", file, "--out", tmp_path / "out")
    assert done.err.splitlines()[-1].startswith("no pictures: pip install 'transduce[plot]'")


def test_what_lies_in_another_folder_is_not_overwritten(
    command: Command, texts: Path, tmp_path: Path
) -> None:
    file, mine = sweep_file(tmp_path / "s.yaml", texts), tmp_path / "mine"
    mine.mkdir()
    (mine / "results.md").write_text("my thesis")
    message = command("sweep", file, "--out", mine).mistake()
    assert message.startswith(f"{mine} is not the folder of a sweep but holds results.md: choose")
    run = tmp_path / "run"
    run.mkdir()
    for name in ("lock", "provenance.json"):
        (run / name).touch()
    assert "holds provenance.json" in command("sweep", file, "--out", run).mistake()
    assert "is a file" in command("sweep", file, "--out", file).mistake()
    assert {path.name for path in mine.iterdir()} == {"results.md"}
    assert (mine / "results.md").read_text() == "my thesis"


def test_rows_and_seeds_that_are_added_later_are_all_that_is_computed(
    command: Command, texts: Path, tmp_path: Path
) -> None:
    file, out = sweep_file(tmp_path / "s.yaml", texts), tmp_path / "out"
    assert command("sweep", file, "--out", out, "--skip", "d_*").code == 0
    assert journal_sizes(out).keys() == {"base"}
    base = products(out)
    sweep_file(file, texts, seeds=[1, 2])
    assert command("sweep", file, "--out", out, "--only", "base").code == 0
    found = products(out)
    assert {name.split("/")[2] for name in found} == {"seed-1", "seed-2"}
    assert found.items() > base.items()
    weights = {found[name] for name in found if name.endswith(".safetensors")}
    assert len(weights) == 2, "seeds differ"

    # Another beam translates the test set again, and trains nothing.
    sizes = journal_sizes(out)
    stamps = {path: path.stat().st_mtime_ns for path in out.rglob("test.test.hyp")}
    sweep_file(file, texts, seeds=[1, 2], beam=1)
    assert command("sweep", file, "--out", out, "--only", "base").code == 0
    assert journal_sizes(out) == sizes
    assert all(path.stat().st_mtime_ns > stamp for path, stamp in stamps.items())


def test_a_budget_in_tokens_ends_the_runs(command: Command, texts: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    file = sweep_file(tmp_path / "s.yaml", texts, budget={"tokens": 3000}, variations=[], test=[])
    assert command("sweep", file, "--out", out).code == 0
    [journal] = out.glob("runs/*/*/journal.jsonl")
    last = [event for event in read_journal(journal) if isinstance(event, Stepped)][-1]
    assert 3000 * 0.8 < last.tokens < 3000 + 2 * 300 * 2
    again = command("sweep", file, "--out", out)
    assert "counting pairs" not in again.err, "nothing is prepared if nothing is left to do"


def test_rows_may_be_computed_one_after_the_other(
    command: Command, texts: Path, tmp_path: Path
) -> None:
    """The epochs that a budget in tokens means are kept for the rows that are left out."""
    out = tmp_path / "out"
    file = sweep_file(tmp_path / "s.yaml", texts, budget={"tokens": 1500}, test=[])
    assert command("sweep", file, "--out", out, "--only", "base").code == 0
    assert command("sweep", file, "--out", out, "--skip", "base").code == 0
    sizes = journal_sizes(out)
    again = command("sweep", file, "--out", out)
    assert again.code == 0, again.err
    assert journal_sizes(out) == sizes


def test_runs_that_fail_are_tried_once_more_and_stop_no_others(texts: Path, tmp_path: Path) -> None:
    """One diverges, one finds the disk full, here by a limit on the size of files."""
    out = tmp_path / "out"
    file = sweep_file(
        tmp_path / "s.yaml",
        texts,
        budget={"steps": 42},
        variations=[
            {
                "name": "diverges",
                "set": {"training.learning_rate": 1e11, "run.checkpoint_steps": 42},
            },
            {"name": "no room", "set": {"model.d_ff": 12_000}},
            {"set": {"model.d_ff": 64}},
        ],
    )
    log = tmp_path / "log"
    options = ("--out", out, "--at-once", "2")
    process = start("sweep", file, *options, log=log, max_file_bytes=1_000_000)
    process.join()
    lines = log.read_text().splitlines()
    assert process.exitcode == 2, lines
    assert len([path for path in products(out) if "safetensors" in path]) == 2
    last = lines[-1]
    assert last.startswith("transduce: 2 of 4 runs failed (diverges, seed 1: training diverged")
    assert last.endswith("; the same command tries again")
    told = Counter(line.split(":")[0] for line in lines if "failed: " in line)
    assert told == {"diverges, seed 1": 2, "no room, seed 1": 2}
    assert "cannot write" in (out / "runs/no_room/seed-1.fault").read_text()
    table = (out / "results.md").read_text(encoding="utf-8")
    assert "2 of 4 runs finished" in table


def test_a_run_whose_process_is_killed_goes_on(texts: Path, tmp_path: Path) -> None:
    killer = Killer("d_ff=64", attempts=1)
    outcome = run_sweep(small_plan(texts, tmp_path / "out"), watcher=killer)
    assert outcome.failed == []
    [(row, fault)] = killer.failures
    assert (row, fault) == (
        "d_ff=64",
        "its process was killed by SIGKILL, perhaps because memory ran out",
    )
    assert [status.phase for status in outcome.status.runs] == ["finished", "finished"]
    assert not list((tmp_path / "out").rglob("*.fault"))
