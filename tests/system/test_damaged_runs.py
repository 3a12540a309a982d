"""What a run notes about itself may be damaged or forged: one line says which file, and what."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.command import Command
from tests.system.small_runs import stopped_run, training, write_corpus

WEIGHTS = b"no weights"
FIXTURE = Path(__file__).parents[1] / "fixtures" / "version_0_1" / "stopped"
LINE = b"The dog sleeps.\n"
STATES: dict[str, tuple[Any, str]] = {
    "progress": ([1], "progress is [1]"),
    "scores": ("good", "scores is 'good'"),
    "loss": ({"loss": "2.0"}, "scores.loss is '2.0'"),
    "metric": ({"loss": 2.0, "metric": {}}, "scores.metric.name is missing"),
    "score": (
        {"loss": 2.0, "metric": {"name": "BLEU", "score": "1"}},
        "scores.metric.score is '1'",
    ),
    "lines": ({"loss": 2.0, "metric": {"name": "a\nb", "score": 1}}, r"metric.name is 'a\nb'"),
    "bleu": ({"loss": 2.0, "bleu": [2]}, "scores.bleu is [2]"),
}
BUDGETS: dict[str, tuple[Any, str]] = {
    "text": ("x", "budgets is 'x'"),
    "entry": ([1], "budgets.0 is 1"),
    "no step": ([{"changed": {}}], "budgets.0.step is missing"),
    "step": ([{"step": "8", "changed": {}}], "budgets.0.step is '8'"),
    "values": ([{"step": 8, "changed": {"training.steps": 8}}], "changed.training.steps is 8"),
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that is not over, of the version before."""
    return shutil.copytree(FIXTURE, tmp_path / "run")


def change(path: Path, **entries: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.exhaustive] * (number > 1))
        for number, name in enumerate(STATES)
    ],
)
def test_a_damaged_state_of_a_checkpoint_is_named(name: str, run: Path, command: Command) -> None:
    newest = max((run / "checkpoints").iterdir())
    value, fault = STATES[name]
    change(newest / "state.json", **{"progress" if name == "progress" else "scores": value})
    for place in (run, newest):
        message = command("translate", place, given=LINE).mistake()
        assert message.startswith(f"{newest / 'state.json'} is damaged (")
        assert f"{fault}): restore it from a copy, or delete {newest}" in message
        described = command("describe", place)
        assert described.code == 0, "its settings can be read"
        assert described.err == f"{message}\n"


@pytest.mark.parametrize("text", ["", "[1]", "{", "null", "[" * 100_000])
def test_a_state_that_is_no_record_is_named(text: str, run: Path, command: Command) -> None:
    state = max((run / "checkpoints").iterdir()) / "state.json"
    state.write_text(text)
    assert command("translate", run, given=LINE).mistake().startswith(f"{state} is damaged (")


@pytest.mark.exhaustive(after=2)
@pytest.mark.parametrize("name", BUDGETS)
def test_damaged_changes_of_the_budget_are_named(name: str, run: Path, command: Command) -> None:
    """They are read where a run was reopened: it has weights, and no card."""
    (run / "model.safetensors").write_bytes(WEIGHTS)
    value, fault = BUDGETS[name]
    change(run / "provenance.json", budgets=value)
    message = command("translate", run, given=LINE).mistake()
    assert message.startswith(f"{run / 'provenance.json'} is damaged (")
    assert message.endswith(f"{fault}): restore it from a copy")
    assert command("describe", run).err == f"{message}\n"


@pytest.mark.parametrize(
    ("entries", "fault"),
    [
        ({"budgets": "x"}, "budgets is 'x'"),
        ({"given": [1]}, "given is [1]"),
        ({"data": {"a.en": 5}}, "data.a.en is 5"),
        ({"preset": []}, "preset is []"),
        ({"split_seed": "one"}, "split_seed is 'one'"),
        ({"versions": "all"}, "versions is 'all'"),
    ],
)
def test_a_damaged_provenance_is_named_when_a_run_is_to_resume(
    entries: dict[str, Any], fault: str, run: Path, command: Command
) -> None:
    change(run / "provenance.json", **entries)
    message = command("train", "--out", run).mistake()
    remedy = "start over with --fresh, or choose another --out"
    assert message == f"{run / 'provenance.json'} is damaged ({fault}): {remedy}"


@pytest.mark.parametrize("name", ["began", "versions", "data", "given"])
def test_a_provenance_that_lacks_an_entry_is_damaged(
    name: str, run: Path, command: Command
) -> None:
    path = run / "provenance.json"
    origin = json.loads(path.read_text())
    del origin[name]
    path.write_text(json.dumps(origin))
    assert f"{path} is damaged ({name} is missing): " in command("train", "--out", run).mistake()


@pytest.mark.parametrize(
    "text", ["model: [1]", "run: 5", "[1]", "run: {choose_by: {}}", "data: {src: {a: 1}}", "1: 2"]
)
def test_damaged_settings_are_one_line(text: str, run: Path, command: Command) -> None:
    (run / "config.yaml").write_text(text)
    for words in (["translate", str(run)], ["describe", str(run)], ["train", "--out", str(run)]):
        assert command(*words, given=LINE).mistake()


@pytest.mark.parametrize("entries", [{"dev_set": []}, {"tokenizer": {}}, {"data": {"dev.src": []}}])
def test_runs_lists_a_run_whose_provenance_is_damaged(
    entries: dict[str, Any], run: Path, command: Command
) -> None:
    shutil.copytree(run, run.with_name("other"))
    change(run / "provenance.json", **entries)
    done = command("runs", run.parent)
    assert done.code == 0, done.err
    assert f"run is listed without its origin: {run / 'provenance.json'} is damaged (" in done.err
    assert "other" in done.out


def test_whole_runs_are_not_damaged_and_a_changed_value_is_told(
    tmp_path: Path, command: Command
) -> None:
    corpus = write_corpus(tmp_path)
    out = stopped_run(corpus, tmp_path / "run", after=10)
    assert command("translate", out, given=LINE).code == 0
    assert command("runs", out).err == ""
    done = command(*training(corpus, out, training__steps=12))
    assert done.code == 0, done.err
    assert command("runs", out).err == "", "the changed budget has a checksum too"
    provenance, journal = out / "provenance.json", out / "journal.jsonl"
    change(provenance, split_seed=7)
    told = f"{provenance} is damaged (its checksum differs): if you have changed it yourself"
    assert told in command(*training(corpus, out, training__steps=14)).mistake()
    assert told in command("runs", out).err
    entries = json.loads(provenance.read_text())
    del entries["checksum"]
    provenance.write_text(json.dumps(entries | {"split_seed": 1}))
    assert command("runs", out).err == ""
    lines = journal.read_text().splitlines(keepends=True)
    number, line = next((n, x) for n, x in enumerate(lines, 1) if '"Scored"' in x)
    journal.write_text("".join(lines).replace(line, line.replace('"loss": ', '"loss": 1')))
    told = f"{journal} line {number} is damaged (its checksum differs); delete that line"
    assert told in command("runs", out).err
    journal.write_text("".join(lines[: number - 1]))
    told_of_its_end = command("runs", out).err
    assert f"{journal} is damaged or the run was killed, because it ends with" in told_of_its_end
    assert "there is a checkpoint of step 12" in told_of_its_end
    journal.write_text("".join(lines).replace(line, line.replace('"loss": ', '"loss": 1')))
    resumed = command(*training(corpus, out, training__steps=14))
    assert (resumed.code, resumed.err.splitlines()[-1]) == (2, f"transduce: {told}")
