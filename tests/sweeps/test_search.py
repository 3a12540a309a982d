"""`transduce sweep --search` through the real command: trials, pruning, resuming."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.command import Command, start
from tests.sweeps.small_sweeps import products, sweep_file, write_texts
from transduce.sweeps.plan import read_plan
from transduce.sweeps.searching import proposals
from transduce.training.run.events import Scored, Started, Stepped
from transduce.training.run.journal import read_journal

pytestmark = pytest.mark.usefixtures("undrawn")

RATE = "training.learning_rate"
RANGES = {RATE: {"low": 1e-4, "high": 0.03, "log": True}, "model.p_drop": [0.0, 0.1, 0.2]}


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("texts"))


def search_file(
    path: Path, texts: Path, *, budget: dict[str, int] | None = None, **search: Any
) -> Path:
    """Write a sweep file with a search and no other rows than the base."""
    budget = budget or {"steps": 12}
    search = {"ranges": RANGES, "prune": False} | search
    return sweep_file(path, texts, variations=[], test=[], budget=budget, search=search)


def trial_values(out: Path) -> dict[str, dict[str, Any]]:
    return {run.variation: run.trial for run in read_plan(out).runs if run.trial}


def journals(out: Path) -> dict[str, bytes]:
    found = out.glob("runs/*/*/journal.jsonl")
    return {path.parent.parent.name: path.read_bytes() for path in sorted(found)}


def table_rows(done: str) -> list[str]:
    return [" ".join(line.split()[:2]) for line in done.splitlines()[2:]]


def results(out: Path) -> str:
    """The table, without the minutes of each run."""
    table = (out / "results.md").read_text(encoding="utf-8").partition("## Runs")[0]
    return table.replace(f"# {out.name}\n", "")


def test_bad_trials_are_pruned_and_trials_can_be_added(
    command: Command, texts: Path, tmp_path: Path
) -> None:
    """With this seed, trial 4 is the one whose learning rate is far too low."""
    ranges = {RATE: [0.02, 0.021, 0.022, 1e-5]}
    prune = {"after_trials": 2, "after_share": 0}
    file = search_file(tmp_path / "s.yaml", texts, ranges=ranges, prune=prune, seed=10)
    out = tmp_path / "out"
    done = command("sweep", file, "--out", out, "--search", "3", "--skip", "base")
    assert done.code == 0, done.err
    assert command("sweep", file, "--out", out, "--search", "4", "--skip", "base").code == 0
    values = trial_values(out)
    assert {found[RATE] for found in values.values()} == {*ranges[RATE]}
    [bad] = [name for name, found in values.items() if found[RATE] == 1e-5]
    assert bad == "trial 4"

    folder = out / "runs" / "trial_4" / "seed-1"
    reason = folder.with_name("seed-1.pruned").read_text()
    assert reason.startswith("stopped after step 6: dev loss ")
    assert "finished trials had dev loss " in reason
    assert [event.step for event in read_journal(folder / "journal.jsonl")
            if isinstance(event, Scored)] == [6]  # fmt: skip
    before = journals(out)
    again = command("sweep", file, "--out", out, "--search", "4", "--skip", "base")
    assert again.code == 0, again.err
    assert journals(out) == before, "nothing is computed again"
    assert "4 runs, 4 finished before" in again.err
    assert ", 1 pruned" in again.err

    found = json.loads((out / "results.json").read_text())
    ended = {run["row"]: run for run in found["runs"]}
    assert ended["trial 4"]["status"] == "pruned"
    order = sorted(
        (row for row in ended if row.startswith("trial") and row != "trial 4"),
        key=lambda row: ended[row]["dev_loss"],
    )
    assert table_rows(again.out)[1:] == [*order, "trial 4"], "the best first"
    assert again.out.splitlines()[-1].endswith("pruned")
    assert found["search"]["ranges"][RATE]["choices"] == ranges[RATE]
    assert "pruned: stopped after step 6" in (out / "results.md").read_text()
    search_file(file, texts, ranges=ranges | {"model.p_drop": [0.0, 0.1]}, prune=prune, seed=10)
    told = command("sweep", file, "--out", out, "--search", "4").mistake()
    assert told.startswith("row 'trial 1': it has begun without model.p_drop, which search.ranges")
    listed = command("runs", out).out
    assert "runs/trial_4/seed-1" in listed, "a trial is an ordinary run"
    translated = command("translate", folder, given=b"The dog sleeps.\n")
    assert translated.code == 0, translated.err


@pytest.mark.exhaustive(after=1)
@pytest.mark.parametrize(
    "moment", ["runs/trial_3/seed-1/journal.jsonl", "runs/trial_4/seed-1/checkpoints/step-*6"]
)
def test_a_search_killed_in_mid_trial_ends_as_if_nothing_was(
    moment: str, command: Command, texts: Path, tmp_path: Path
) -> None:
    pytest.importorskip("optuna")
    prune = {"after_trials": 2, "after_share": 0}
    file = search_file(tmp_path / "s.yaml", texts, sampler="tpe", random_trials=2, prune=prune)
    sweep = ("sweep", file, "--search", "4", "--skip", "base", "--at-once", "1", "--out")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert command(*sweep, whole).code == 0
    process = start(*sweep, killed, log=tmp_path / "log")
    while process.is_alive() and not any(killed.glob(moment)):
        time.sleep(0.002)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert process.exitcode == -signal.SIGKILL, (tmp_path / "log").read_text()
    done = command(*sweep, killed)
    assert done.code == 0, done.err
    assert len({str(found) for found in trial_values(whole).values()}) == 4
    assert trial_values(killed) == trial_values(whole)
    assert products(killed) == products(whole)
    assert results(killed) == results(whole)
    pruned = [path.relative_to(killed) for path in killed.rglob("*.pruned")]
    assert sorted(pruned) == sorted(path.relative_to(whole) for path in whole.rglob("*.pruned"))


def test_a_trial_that_diverges_is_no_failure(command: Command, texts: Path, tmp_path: Path) -> None:
    file = search_file(
        tmp_path / "s.yaml", texts, ranges={RATE: [1e11, 2e11]}, budget={"steps": 42}
    )
    tree = json.loads(file.read_text())
    tree["settings"]["run"]["checkpoint_steps"] = 42
    file.write_text(json.dumps(tree))
    out = tmp_path / "out"
    done = command("sweep", file, "--out", out, "--search", "1", "--skip", "base")
    assert done.code == 0, done.err
    [marker] = out.rglob("*.pruned")
    assert marker.read_text().startswith("training diverged: ")
    assert not list(out.rglob("*.fault"))


def test_a_budget_in_tokens_is_the_same_for_all_trials(
    command: Command, texts: Path, tmp_path: Path
) -> None:
    file, out = search_file(tmp_path / "s.yaml", texts, budget={"tokens": 3000}), tmp_path / "out"
    options = ("--out", out, "--search", "2", "--skip", "base")
    assert command("sweep", file, *options).code == 0
    before = journals(out)
    for path in out.glob("runs/*/*/journal.jsonl"):
        events = read_journal(path)
        [tokens] = [event.tokens for event in events if isinstance(event, Stepped)][-1:]
        assert 3000 * 0.8 < tokens < 3000 + 2 * 300 * 2
        assert sum(isinstance(event, Started) for event in events) == 1
    again = command("sweep", file, *options)
    assert again.code == 0, again.err
    assert journals(out) == before


def test_what_is_missing_is_one_line(
    command: Command, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    file = search_file(tmp_path / "s.yaml", texts, sampler="tpe")
    monkeypatch.setattr(proposals, "find_spec", lambda _name: None)
    told = command("sweep", file, "--out", out, "--search", "3").mistake()
    assert told.startswith(
        "search.sampler=tpe: Optuna is not installed: pip install 'transduce[search]'"
    )
    told = command("sweep", file, "--out", out).mistake()
    assert told == "the sweep file has a section 'search': say how many trials, --search 20"
    plain = sweep_file(tmp_path / "plain.yaml", texts)
    told = command("sweep", plain, "--out", out, "--search", "3").mistake()
    assert told == "--search: the sweep file has no section 'search' with ranges"
    assert not out.exists()
