"""Parts of a sweep on machines that are lent: all rows, each once, and records however they end."""

import itertools
import json
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.command import Command
from tests.project.documents import ROOT
from tests.sweeps.small_sweeps import sweep_file, write_texts
from transduce.config.load import read_yaml
from transduce.sweeps.file import read_sweep_file
from transduce.sweeps.plan import make_plan, read_plan, selected_rows

BENCHMARKS = ROOT / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
try:
    import sweep_at_once
    from plan_file import read_plan as read_steps
    from sweep_part import compute, part_of, write_part
finally:
    sys.path.pop(0)

TABLE_3 = ROOT / "recipes/sweeps/table3.yaml"


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Restore what a signal does."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_the_plans_of_table_3_have_each_run_once(tmp_path: Path) -> None:
    wanted = make_plan(read_sweep_file(TABLE_3), tmp_path / "whole")
    found: Counter[str] = Counter()
    for part in (1, 2, 3):
        plan = read_steps(BENCHMARKS / f"plans/table3_{part}.yaml", tmp_path)
        [command] = [step.command for step in plan.steps if step.name == "sweep"]
        words = list(itertools.pairwise(command))
        rows = [row for option, row in words if option == "--only"]
        [seed] = [int(seed) for option, seed in words if option == "--seed"]
        file = write_part(ROOT / command[2], tmp_path / f"{part}.yaml", Path("texts"), seed)
        runs = make_plan(read_sweep_file(file), tmp_path / f"{part}").runs
        chosen = selected_rows([run.variation for run in runs], rows, [])
        found += Counter(run.name for run in runs if run.variation in chosen)
    assert found == Counter(run.name for run in wanted.runs)


def test_a_part_reads_its_texts_elsewhere_and_is_else_the_sweep(tmp_path: Path) -> None:
    tree = read_yaml(TABLE_3)
    part = part_of(tree, tmp_path, 3)
    text = yaml.safe_dump(part)
    assert "data/" not in text.replace(str(tmp_path), "")
    assert part["settings"]["data"]["src"][0] == f"{tmp_path}/europarl-de-en/train.0.en.xz"
    assert part["variations"][0] == {"name": "base", "seeds": [3]}
    assert part["seeds"] == tree["seeds"]
    assert part_of(tree, Path("data")) == tree


def test_a_sweep_is_stopped_in_time_and_a_fault_is_told() -> None:
    sleep = [sys.executable, "-c", "import time; time.sleep(1000)"]
    assert compute(sleep, 0.3) == "stopped after 0.005 minutes"
    assert compute([sys.executable, "-c", "raise SystemExit(3)"], 60) == "exit code 3"
    assert compute([sys.executable, "-c", ""], 60) == "all runs are finished"


@pytest.mark.usefixtures("undrawn")
def test_two_sweeps_are_the_same_if_their_runs_are(tmp_path: Path, command: Command) -> None:
    corpus = write_texts(tmp_path)
    for name, steps in (("one", 12), ("longer", 13)):
        file = sweep_file(tmp_path / f"{name}.yaml", corpus, budget={"steps": steps})
        command("sweep", str(file), "--out", str(tmp_path / name))
    one, longer = (sweep_at_once.scores(tmp_path / name) for name in ("one", "longer"))
    assert sweep_at_once.differences(one, one).endswith(
        "at most 0.00% apart in perplexity, 0.00 in the scores of test sets"
    )
    with pytest.raises(SystemExit, match="is not the same run in both sweeps"):
        sweep_at_once.differences(one, longer)
    plan = read_plan(tmp_path / "one")
    (plan.runs[0].folder / "journal.jsonl").unlink()
    with pytest.raises(SystemExit, match="base, seed 1: not begun"):
        sweep_at_once.scores(tmp_path / "one")


def test_a_sweep_is_shortened_to_its_first_rows(tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    tree = sweep_at_once.shortened(ROOT / "recipes/sweeps/table3_small.yaml", tmp_path, 12, 1000)
    file.write_text(json.dumps(tree))
    runs = make_plan(read_sweep_file(file), tmp_path / "sweep").runs
    assert [run.seed for run in runs] == [1] * 12
    assert len({run.variation for run in runs}) == 12
    assert tree["budget"] == {"tokens": 1000}
