"""Plans of `benchmarks/in_turn.py` are sound: every command would be understood, and in time."""

import argparse
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from tests.project.documents import ROOT
from transduce.cli.app import app
from transduce.config.load import load_config
from transduce.errors import ConfigError
from transduce.sweeps.file import read_sweep_file

BENCHMARKS = ROOT / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
try:
    from plan_file import Step, expected_times, read_plan
finally:
    sys.path.pop(0)

PLANS = sorted((BENCHMARKS / "plans").glob("*.yaml"))
EVERY_STEP = [
    pytest.param(step, id=f"{path.stem}-{step.name}")
    for path in PLANS
    for step in read_plan(path, Path("runs")).steps
]
MOST_MINUTES = 30
GPU_TEST = re.compile(r"pytest\.mark\.gpu\b")


class UnderstoodError(Exception):
    """A script has parsed its command line, and would begin."""


def complaint(command: list[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Say why a command would not be understood; nothing if it would."""
    while command[0] == "env":
        command = [word for word in command[1:] if not re.match(r"[A-Z_]+=", word)]
    if command[0] != sys.executable:
        known = ("nvidia-cuda-mps-control", "nvidia-smi", "ln")
        return "" if command[0] in known else "no Python"
    if command[1:3] == ["-m", "transduce"]:
        return complaint_of_transduce(command[3:])
    if command[1:3] == ["-m", "pytest"]:
        missing = [word for word in command if "/" in word[1:] and not (ROOT / word).exists()]
        return f"no {missing}" if missing else ""
    return complaint_of_script(command[1], command[2:], monkeypatch)


def complaint_of_transduce(words: list[str]) -> str:
    """Parse the words as the command would, settings of a recipe and rows of a sweep included."""
    command: Any = typer.main.get_command(app)
    try:
        while hasattr(command, "commands"):
            command, words = command.commands[words[0]], words[1:]
        given = command.make_context(command.name, list(words)).params
        recipe = str(given.get("recipe") or given.get("file") or "")
        if command.name == "train":
            load_config(ROOT / recipe if recipe else "base", given["changes"] or [])
        if command.name == "sweep" and recipe:
            rows = {row.name for row in read_sweep_file(ROOT / recipe).variations}
            asked = {*(given["only"] or []), *(given["skip"] or [])}
            return f"no rows {asked - rows}" if asked - rows else ""
    except (KeyError, ConfigError) as fault:
        return repr(fault)
    except Exception as fault:  # noqa: BLE001 - the classes of Typer's own click are private
        return str(fault)
    return ""


def complaint_of_script(name: str, words: list[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a script until it has parsed its command line."""
    if not (ROOT / name).is_file():
        return f"no file {name}"
    parse = argparse.ArgumentParser.parse_args

    def parse_and_stop(parser: argparse.ArgumentParser, *given: Any) -> None:
        parse(parser, *given)
        raise UnderstoodError

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_and_stop)
    monkeypatch.setattr(sys, "argv", [name, *words])
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    try:
        runpy.run_path(str(ROOT / name), run_name="__main__")
    except UnderstoodError:
        return ""
    except SystemExit as fault:
        return f"exit code {fault.code}"
    return "it parses nothing"


@pytest.mark.parametrize("step", EVERY_STEP)
def test_a_command_of_a_plan_is_understood(step: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert complaint([*step.command], monkeypatch) == ""
    assert step.minutes < step.limit_minutes < MOST_MINUTES


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_a_plan_fits_its_time_and_says_what_it_needs(path: Path) -> None:
    plan = read_plan(path, Path("runs"))
    assert max(end for _, end in expected_times(plan.steps).values()) <= plan.minutes
    assert plan.minutes <= MOST_MINUTES
    text = path.read_text(encoding="utf-8")
    head = "".join(line.lstrip("# ") for line in text.partition("\nminutes:")[0].splitlines())
    assert f"python benchmarks/in_turn.py {path.relative_to(ROOT)} --out" in head
    assert f"{plan.minutes:g} minutes" in head
    files = {file for step in plan.steps for file in step.when}
    assert [file for file in files if Path(file).name not in text] == []
    assert [package for package in plan.packages if package not in head] == []


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_steps_beside_each_other_may_not_take_more_memory_than_there_is(path: Path) -> None:
    plan = read_plan(path, Path("runs"))
    times = expected_times(plan.steps)
    for begin, _ in times.values():
        beside = [step for step in plan.steps if times[step.name][0] <= begin < times[step.name][1]]
        assert sum(step.memory or 0 for step in beside) <= 1, [step.name for step in beside]


def test_every_gpu_test_is_in_a_plan() -> None:
    plan = read_plan(BENCHMARKS / "plans/gpu_tests.yaml", Path("runs"))
    chosen = {ROOT / word for step in plan.steps for word in step.command if word[:6] == "tests/"}
    here = Path(__file__)
    files = {
        path
        for path in (ROOT / "tests").rglob("*.py")
        if path != here and GPU_TEST.search(path.read_text(encoding="utf-8"))
    }
    assert files
    assert [file for file in files if not {file, *file.parents} & chosen] == []


@pytest.mark.parametrize(
    "run",
    [
        "{python} benchmarks/none.py",
        "{python} benchmarks/compare_systems.py train recipe.yaml --data other --out x --epochs 1",
        "{python} benchmarks/compare_systems.py train recipe.yaml --data multi30k --out x",
        "{python} benchmarks/glossaries.py model --src a --ref b --shape 1",
        "{python} -m transduce trian",
        "{python} -m transduce train recipes/none.yaml",
        "{python} -m transduce train recipes/multi30k_ende.yaml --set model.d_modle=1",
        "{python} -m transduce train --minutes many",
        "{python} -m transduce sweep recipes/sweeps/table3.yaml --only base_h3",
        "{python} -m pytest tests/none",
        "no-such-program",
    ],
)
def test_a_command_that_would_not_be_understood_is_found(
    run: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(ROOT)
    assert complaint([*planned(tmp_path, {"run": run})[0].command], monkeypatch) != ""


def planned(folder: Path, *steps: dict[str, Any]) -> tuple[Step, ...]:
    """Read a plan of these steps; what they leave out is filled in."""
    path = folder / "plan.yaml"
    usual = {"name": "a", "run": "true", "lane": "one", "minutes": 1}
    content = {"minutes": 5, "variables": {"x": 2}, "steps": [usual | step for step in steps]}
    path.write_text(yaml.safe_dump(content))
    return read_plan(path, folder).steps


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([{"lanes": "x"}], r"unknown steps.1.lanes \(did you mean lane\?\)"),
        ([{"minutes": 0}, {"minutes": "1"}], r"steps.1.minutes: .*; steps.2.minutes: .* a number"),
        ([{"name": "a b"}], "steps.1.name: "),
        ([{"run": ""}], "steps.1.run: "),
        ([], "`steps` is empty"),
        ([{}, {}], "two steps have the name a"),
        ([{"after": ["b"]}, {"name": "b", "after": ["a"]}], "wait for each other: a, b"),
        ([{"name": "first", "after": ["frist"]}], r"of first: frist \(did you mean first\?\)"),
        (
            [{"name": "first", "over": ["frist"]}],
            r"`over` of first: frist \(did you mean first\?\)",
        ),
        ([{"over": ["b"]}, {"name": "b", "after": ["a"]}], "wait for each other: a, b"),
        ([{"run": "{pyhton} x"}], r"unknown variable pyhton \(did you mean python\?\)"),
        ([{"run": "echo 'x"}], "step a: run: No closing quotation"),
        ([{"when": "file"}], "steps.1.when: must be a list"),
    ],
)
def test_a_wrong_plan_is_refused(steps: list[dict[str, Any]], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        planned(tmp_path, *steps)


def test_a_variable_that_is_a_word_may_be_several_words(tmp_path: Path) -> None:
    [step] = planned(tmp_path, {"run": "a{x} {x} '{x} b'", "keep": ["{out}/{x}"]})
    assert step.command == ("a2", "2", "2 b")
    assert step.keep == (f"{tmp_path}/2",)
    path = tmp_path / "plan.yaml"
    [step] = read_plan(path, tmp_path, ["x=4 5"]).steps
    assert step.command == ("a4 5", "4", "5", "4 5 b")
    with pytest.raises(ConfigError, match="unknown variable y"):
        read_plan(path, tmp_path, ["y=1"])
