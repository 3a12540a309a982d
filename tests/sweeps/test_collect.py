"""A sweep that was computed in parts: small files of all parts make the table of the whole."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.command import Command
from tests.sweeps.made_up import make_run, sweep, with_errors
from tests.sweeps.small_sweeps import products, sweep_file, write_texts
from transduce.errors import InputError
from transduce.sweeps import report
from transduce.sweeps.collect import collect
from transduce.sweeps.plan import SweepPlan, read_plan, write_plan
from transduce.sweeps.report import write_report

ROWS = [
    {"name": "base", "seeds": [1, 2]},
    {"name": "base_h1", "set": {"model.h": 1}},
    {"name": "base_n2", "set": {"model.n_layers": 1}},
    {"name": "base_ls0", "set": {"training.eps_ls": 0.0}},
]
LOSSES = {"base": 1.0, "base_h1": 1.5, "base_n2": 2.0, "base_ls0": 0.9}
ERRORS = {"base": 2, "base_h1": 7, "base_n2": 9, "base_ls0": 8}


@pytest.fixture
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "available", lambda: False)


def made(folder: Path, *rows: str) -> SweepPlan:
    """A sweep in which these rows are computed."""
    plan = sweep(folder, variations=ROWS)
    for run in plan.runs:
        if run.variation in rows:
            loss = LOSSES[run.variation] + run.seed / 10
            hypotheses = with_errors(ERRORS[run.variation] + run.seed)
            make_run(run, loss=loss, hypotheses=hypotheses)
            (run.folder / "model.safetensors").write_bytes(bytes(1_000_000))
            (run.folder / "checkpoints" / "step-000000000100").mkdir(parents=True)
    write_plan(plan)
    return plan


def table_of(plan: SweepPlan) -> str:
    [table, *_] = write_report(plan).files
    return table.read_text(encoding="utf-8")


@pytest.mark.usefixtures("without_pictures")
def test_the_table_of_the_parts_is_that_of_the_whole(tmp_path: Path) -> None:
    """Perplexities are in the paper's order, and so are p-values and BLEU beside the paper's."""
    whole = table_of(made(tmp_path / "whole" / "mine", *LOSSES))
    first = made(tmp_path / "first" / "mine", "base", "base_h1")
    other = made(tmp_path / "other" / "mine", "base_n2", "base_ls0")
    found = collect([first.folder, other.folder], tmp_path / "mine")
    for part in (first, other):
        shutil.rmtree(part.folder)
    assert table_of(found) == whole
    moved = (tmp_path / "mine").rename(tmp_path / "elsewhere")
    assert table_of(read_plan(moved)).replace("# elsewhere\n", "# mine\n") == whole
    assert "over 4 rows: ρ = 1.00" in whole
    assert "paper PPL | paper BLEU |" in whole
    assert whole.count("(p = 0.") == 3
    assert sum(path.stat().st_size for path in moved.rglob("*")) < 1_000_000
    found = json.loads((moved / "results.json").read_text())
    assert found["rank_correlation_with_paper"]["BLEU"]["rows"] == 4


@pytest.mark.usefixtures("without_pictures")
def test_parts_may_be_added_one_by_one(tmp_path: Path) -> None:
    """A run is taken from where it has come furthest, in whatever order the parts are added."""
    begun = sweep(tmp_path / "begun", variations=ROWS)
    make_run(begun.runs[0], finished=False)
    begun.runs[2].fault_file.parent.mkdir(parents=True)
    begun.runs[2].fault_file.write_text("no memory\n")
    write_plan(begun)
    done, out = made(tmp_path / "done", "base", "base_h1"), tmp_path / "out"
    states = []
    for part in (begun, done, begun):
        results = write_report(collect([part.folder], out)).results
        states.append([run.state for run in results.runs])
    assert states[0] == ["step 50", "not begun", "failed: no memory", "not begun", "not begun"]
    assert states[1] == states[2] == ["finished"] * 3 + ["not begun"] * 2


def test_a_seed_or_a_row_of_one_part_alone_is_added(tmp_path: Path) -> None:
    one = sweep(tmp_path / "one", variations=ROWS[:2])
    other = sweep(tmp_path / "other", variations=[{"name": "base", "seeds": [3]}, ROWS[3]])
    for plan in (one, other):
        write_plan(plan)
    found = read_plan(collect([one.folder, other.folder], tmp_path / "out").folder)
    names = ["base, seed 1", "base, seed 2", "base_h1, seed 1", "base, seed 3", "base_ls0, seed 1"]
    assert [run.name for run in found.runs] == names
    assert all(run.folder.is_relative_to(tmp_path / "out" / "runs") for run in found.runs)


def test_what_is_no_part_of_the_same_sweep_is_refused(tmp_path: Path) -> None:
    one = made(tmp_path / "one", "base")
    heads = [{"name": "base_h1", "set": {"model.h": 2}}]
    cases: list[tuple[dict[str, Any], str]] = [
        ({"budget": {"steps": 99}}, "are not parts of one sweep: their files differ in budget"),
        ({"test": []}, "are not parts of one sweep: their files differ in test"),
        ({"variations": heads}, "row 'base_h1' has other settings in .* than in .*: model.h"),
    ]
    for number, (changed, message) in enumerate(cases):
        other = sweep(tmp_path / str(number), **({"variations": ROWS} | changed))
        write_plan(other)
        with pytest.raises(InputError, match=message):
            collect([one.folder, other.folder], tmp_path / "out")
    other = made(tmp_path / "other", "base")
    (other.folder / "seen.tgt").write_text("other references\n")
    with pytest.raises(InputError, match=r"test seen: .* and .* are different references"):
        collect([one.folder, other.folder], tmp_path / "out")
    with pytest.raises(InputError, match=r"is not the folder of a sweep: it has no sweep.json"):
        collect([tmp_path], tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_every_part_is_compared_with_every_other(tmp_path: Path) -> None:
    first, one, other, alike = (
        sweep(tmp_path / name, variations=rows)
        for name, rows in (
            ("first", []),
            ("one", [{"name": "h", "set": {"model.h": 1}}]),
            ("other", [{"name": "h", "set": {"model.h": 2}}]),
            ("alike", [{"name": "H", "set": {"model.h": 2}}]),
        )
    )
    for plan in (first, one, other, alike):
        write_plan(plan)
    with pytest.raises(InputError, match=r"row 'h' has other settings in .* than in .*: model.h"):
        collect([first.folder, one.folder, other.folder], tmp_path / "out")
    with pytest.raises(InputError, match=r"rows 'h' in .* and 'H' in .* would share a folder"):
        collect([first.folder, one.folder, alike.folder], tmp_path / "out")


@pytest.mark.parametrize(
    "place", ["../../runs/a/b", "runs/../b", "runs/a/..", "/runs/a/b", "runs/a", "a", "runs//b"]
)
def test_runs_of_a_stranger_are_in_the_folder(place: str, tmp_path: Path) -> None:
    plan = made(tmp_path / "part", "base")
    path = plan.folder / "sweep.json"
    record = json.loads(path.read_text())
    record["runs"][0]["folder"] = place
    path.write_text(json.dumps(record))
    with pytest.raises(InputError, match=r"sweep.json is damaged"):
        collect([plan.folder], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_files_of_a_stranger_are_regular_and_not_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = made(tmp_path / "part", "base")
    secret, card = tmp_path / "secret", plan.runs[0].folder / "README.md"
    secret.write_text("mine\n")
    card.symlink_to(secret)
    with pytest.raises(InputError, match=r"cannot read .*README.md: it is a link"):
        collect([plan.folder], tmp_path / "linked")
    card.unlink()
    os.mkfifo(card)
    with pytest.raises(InputError, match=r"cannot read .*README.md: it is not a regular file"):
        collect([plan.folder], tmp_path / "fifo")
    card.unlink()
    monkeypatch.setattr("transduce.sweeps.collect.MAX_BYTES", 100_000)
    card.write_bytes(bytes(100_001))
    with pytest.raises(InputError, match=r"cannot read .*README.md: it has 100,001 bytes"):
        collect([plan.folder], tmp_path / "out")
    card.unlink()
    assert "cannot read" not in table_of(collect([plan.folder], tmp_path / "out")), "it goes on"


@pytest.mark.usefixtures("without_pictures")
def test_a_damaged_run_hides_no_other(tmp_path: Path) -> None:
    plan = made(tmp_path / "part", "base", "base_h1")
    for damaged in (b"model: [", None):
        path = plan.runs[0].folder / "config.yaml"
        path.unlink() if damaged is None else path.write_bytes(damaged)
        out = collect([plan.folder], tmp_path / f"out {damaged is None}")
        assert [run.state for run in write_report(out).results.runs][:3] == ["finished"] * 3


def test_a_run_with_weights_is_not_replaced_by_records(tmp_path: Path) -> None:
    done, out = made(tmp_path / "done", "base"), made(tmp_path / "out")
    make_run(out.runs[0], finished=False)
    (out.runs[0].folder / "checkpoints" / "step-000000000050").mkdir(parents=True)
    with pytest.raises(InputError, match=r"base, seed 1: has come further in "):
        collect([done.folder], out.folder)


@pytest.mark.usefixtures("undrawn")
def test_rows_of_two_machines_become_one_sweep_that_goes_on(
    command: Command, tmp_path: Path
) -> None:
    """What was trained elsewhere counts as finished, without its weights."""
    texts = write_texts(tmp_path / "texts")
    rows = [{"set": {"model.d_ff": 64}}]
    file = sweep_file(tmp_path / "s.yaml", texts, budget={"tokens": 1500}, variations=rows)
    parts = {row: tmp_path / f"with {row}" for row in ("base", "d_ff=64")}
    for row, part in parts.items():
        assert command("sweep", file, "--out", part, "--only", row).code == 0
    out = tmp_path / "out"
    both = [word for part in parts.values() for word in ("--report", str(part))]
    assert "name one for the results of all with --out" in command("sweep", *both).mistake()
    told = command("sweep", *both, "--out", out)
    assert told.code == 0, told.err
    assert [line.split()[0] for line in told.out.splitlines()[2:]] == ["base", "d_ff=64"]
    assert not list(out.rglob("*.safetensors"))
    alone = command("translate", out / "runs" / "base" / "seed-1", texts / "test.en").mistake()
    assert "holds the records of a finished run without its weights: restore model.saf" in alone
    made = {name: text for part in parts.values() for name, text in products(part).items()}
    assert products(out).items() == {n: t for n, t in made.items() if n.endswith(".hyp")}.items()
    for part in parts.values():
        shutil.rmtree(part)
    assert command("sweep", "--report", out).out == told.out

    sizes = {path: path.stat().st_size for path in out.glob("runs/*/*/journal.jsonl")}
    rows.append({"set": {"model.d_ff": 48}})
    sweep_file(file, texts, budget={"tokens": 1500}, variations=rows)
    later = command("sweep", file, "--out", out)
    assert later.code == 0, later.err
    assert "3 runs, 2 finished before" in later.err
    assert {path: path.stat().st_size for path in sizes} == sizes
    assert [path.parts[-3] for path in out.rglob("runs/*/*/model.safetensors")] == ["d_ff=48"]

    sweep_file(file, texts, budget={"tokens": 1500}, variations=rows, beam=1)
    message = command("sweep", file, "--out", out).mistake()
    assert message.startswith("row 'base': ")
    assert "no translations of test with beam 1, α 0.6, and no weights to make them" in message
