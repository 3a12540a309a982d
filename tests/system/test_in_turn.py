"""A plan's steps run in their order, through kills of whoever runs them, and results come home."""

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from transduce.files.locks import is_locked

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
NOTE = "import sys; open('order', 'a').write(sys.argv[1] + ' ')"
HOLD = """
import os, signal, subprocess, sys, time
if len(sys.argv) > 1:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("ignoring", flush=True)
    subprocess.Popen([sys.executable, "-c", f"{sys.argv[1]}; import time; time.sleep(600)"])
open("began", "a").write(f"{os.getpid()} ")
while not os.path.exists("go"):
    time.sleep(0.02)
"""
"""A step that ends when there is a file `go`; with an argument it leaves a process, and is deaf."""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("note.py").write_text(NOTE)
    Path("hold.py").write_text(HOLD)
    return tmp_path


def plan(*steps: dict[str, Any], **variables: str) -> None:
    entries = [{"lane": "one", "minutes": 1} | step for step in steps]
    content = {"minutes": 10, "variables": variables, "steps": entries}
    Path("plan.yaml").write_text(yaml.safe_dump(content))


def noting(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "run": f"{{python}} note.py {name}"} | more


def holding(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "run": "{python} hold.py"} | more


def command(*more: str) -> list[str]:
    return [sys.executable, str(BENCHMARKS / "in_turn.py"), "plan.yaml", "--out", "out", *more]


def called(*more: str, code: int = 0) -> str:
    done = subprocess.run(
        command(*more), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == code, done.stdout
    return done.stdout


def states() -> dict[str, str]:
    records = json.loads(Path("out/status.json").read_text())
    return {name: record["state"] for name, record in records.items()}


def order() -> list[str]:
    return Path("order").read_text().split() if Path("order").exists() else []


def until(condition: Callable[[], object]) -> None:
    last = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < last, states()
        time.sleep(0.02)


def began() -> list[int]:
    return [int(pid) for pid in Path("began").read_text().split()] if Path("began").exists() else []


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_lane_runs_one_step_at_a_time_in_order_and_lanes_run_beside_each_other() -> None:
    plan(
        noting("after_all", after=["first", "second", "beside"]),
        holding("first"),
        noting("second"),
        noting("beside", lane="two"),
    )
    assert "second: waiting" in called("--seconds", "0", code=3)
    until(order)
    assert order() == ["beside"]
    Path("go").touch()
    called()
    assert order() == ["beside", "second", "after_all"]
    assert set(states().values()) == {"done"}


def test_what_is_done_is_not_run_again_unless_its_command_changes() -> None:
    plan(
        noting("one"),
        {"name": "two", "run": "{python} note.py {text} {none}", "lane": "two"},
        text="x",
        none="",
    )
    called()
    called()
    assert sorted(order()) == ["one", "x"]
    called("--set", "text=y")
    assert order()[-1] == "y"
    assert len(order()) == 3


def test_after_a_failed_step_nothing_that_needs_it_runs_until_it_succeeds() -> None:
    plan(
        {"name": "bad", "run": "{python} -c \"print(5); open('fixed')\""},
        noting("needs", after=["bad"]),
        noting("needs_that", after=["needs"]),
        noting("other"),
        {"name": "absent", "run": "no-such-program", "lane": "two"},
    )
    said = called(code=1)
    assert "bad: failed" in said
    assert "FileNotFoundError" in said
    assert "No such file or directory: 'no-such-program'" in said
    assert "needs_that: not run after needs: not run" in said
    assert order() == ["other"]
    Path("fixed").touch()
    called(code=1)
    assert order() == ["other", "needs", "needs_that"]
    assert Path("out/bad.log").read_text().count("\n5\n") == 2


def test_a_step_may_follow_others_however_they_end() -> None:
    fails = {"run": "{python} -c 'raise SystemExit(1)'"}
    plan(
        noting("last", over=["bad", "not_run", "slow", "other"], lane="two"),
        noting("bad") | fails,
        noting("not_run", after=["bad"]),
        noting("slow", lane="three") | {"run": "{python} hold.py"},
        noting("other"),
    )
    Path("go").touch()
    called(code=1)
    assert order() == ["other", "last"]
    assert states() == {
        "last": "done",
        "bad": "failed",
        "not_run": "not run",
        "slow": "done",
        "other": "done",
    }


def test_files_count_as_arrived_if_they_are_there_when_a_call_begins() -> None:
    plan(noting("later", when=["half"], lane="two"), holding("now"), noting("then"))
    called("--seconds", "0", code=3)
    Path("half").write_text("not yet whole")
    Path("go").touch()
    until(lambda: states()["then"] == "done" and not is_locked(Path("out/.lock")))
    assert order() == ["then"]
    called()
    assert order() == ["then", "later"]


def test_without_its_files_a_plan_ends_and_goes_on_with_them() -> None:
    plan(noting("later", when=["{folder}/half"]), noting("now"), folder="data")
    assert "later: waiting for data/half" in called(code=3)
    assert order() == ["now"]
    Path("data").mkdir()
    Path("data/half").touch()
    called()
    assert order() == ["now", "later"]


def test_a_killed_call_ends_no_step() -> None:
    plan(holding("one"), noting("two"))
    with subprocess.Popen(command(), start_new_session=True, stdout=subprocess.PIPE) as call:
        until(began)
        os.killpg(call.pid, signal.SIGKILL)
    Path("go").touch()
    called()
    assert len(began()) == 1
    assert order() == ["two"]


def test_a_killed_supervisor_is_replaced_and_its_step_ended_and_run_again() -> None:
    plan(noting("zero"), holding("one"), noting("two"))
    with subprocess.Popen(command(), stdout=subprocess.PIPE, text=True) as call:
        until(began)
        [step] = began()
        until(lambda: states()["one"] == "running")
        os.kill(parent_of(step), signal.SIGKILL)
        said, _ = call.communicate()
        assert call.returncode == 3
    assert "the supervisor was ended" in said
    assert is_alive(step)
    called("--seconds", "0", code=3)
    until(lambda: len(began()) == 2)
    assert not is_alive(step)
    Path("go").touch()
    called()
    assert order() == ["zero", "two"]


def test_a_late_step_is_ended_with_its_processes() -> None:
    plan(holding("late", limit_minutes=0.01), noting("next"))
    assert "late: failed after" in called(code=1)
    assert not is_alive(*began())
    assert "0.01 minutes, its limit" in Path("out/status.json").read_text()
    assert order() == ["next"]


@pytest.mark.exhaustive
def test_a_step_that_is_deaf_to_sigterm_is_killed_with_what_it_has_started() -> None:
    child = "import os; open('began', 'a').write(f'{os.getpid()} ')"
    plan(
        {"name": "late", "run": f'{{python}} hold.py "{child}"', "limit_minutes": 0.01},
        noting("next"),
    )
    called(code=1)
    assert len(began()) == 2
    assert not any(map(is_alive, began()))
    assert order() == ["next"]


def test_what_a_step_leaves_behind_is_ended() -> None:
    Path("leave.py").write_text(
        "import subprocess, sys\n"
        "left = subprocess.Popen([sys.executable, 'hold.py'])\n"
        "open('left', 'w').write(str(left.pid))\n"
    )
    plan({"name": "one", "run": "{python} leave.py"})
    called()
    until(lambda: not is_alive(int(Path("left").read_text())))


def test_another_plan_does_not_mix_with_one_that_runs() -> None:
    plan(holding("one"))
    called("--seconds", "0", code=3)
    plan(noting("other"))
    assert "another plan, or other values, run there" in called(code=2)
    Path("go").touch()
    plan(holding("one"))
    called()


def test_results_are_collected_under_their_own_paths(place: Path) -> None:
    Path("big").write_bytes(os.urandom(16_000_000))
    plan(
        {"name": "one", "run": '{python} -c "print(41 + 1)"', "keep": ["runs/**/*.json", "big"]},
        noting("two", keep=[str(place / "order"), "absent*"]),
    )
    Path("runs/a").mkdir(parents=True)
    Path("runs/a/score.json").write_text("{}")
    assert "too large for the results: big" in called("--collect", "home")
    with tarfile.open("home/results.tar.gz") as archive:
        assert sorted(archive.getnames()) == [
            "order",
            "out/one.log",
            "out/status.json",
            "out/supervisor.log",
            "out/two.log",
            "runs/a/score.json",
        ]
        log = archive.extractfile("out/one.log")
        assert log is not None
        assert log.read().endswith(b"\n42\n")


def test_results_are_collected_before_a_plan_is_over() -> None:
    plan(holding("one"), noting("two"))
    called("--seconds", "0", "--collect", "home", code=3)
    with tarfile.open("home/results.tar.gz") as archive:
        assert "out/status.json" in archive.getnames()
    Path("go").touch()
    called()


def test_show_runs_nothing_and_says_when_each_step_would() -> None:
    plan(
        noting("c", after=["a", "b"], minutes=1.5),
        noting("a", minutes=2),
        noting("b", minutes=3, lane="two"),
        noting("d"),
    )
    said = [line.split()[:6] for line in called("--show").splitlines()]
    assert [(name, begin, end) for begin, _, end, _, name in (line[:5] for line in said[:-1])] == [
        ("c:", "3.0", "4.5"),
        ("a:", "0.0", "2.0"),
        ("b:", "0.0", "3.0"),
        ("d:", "2.0", "3.0"),
    ]
    assert said[-1] == ["4.5", "of", "10", "minutes"]
    assert not Path("out").exists()


def test_show_names_the_inputs_and_packages_that_are_not_there() -> None:
    text = "texts/a.txt texts/b.txt 'c=[texts/c.xz,texts/d.de.xz]' other/texts/e.txt"
    plan({"name": "a", "run": f"{{python}} {text}", "when": ["{data}/f"]}, data="texts")
    content = yaml.safe_load(Path("plan.yaml").read_text())
    Path("plan.yaml").write_text(yaml.safe_dump(content | {"packages": ["json", "no_such"]}))
    Path("texts").mkdir()
    Path("texts/a.txt").write_bytes(bytes(600_000))
    Path("texts/d.de.xz").write_bytes(bytes(900_000))
    assert called("--show").splitlines()[-5:] == [
        "2 of 5 named inputs are there, 1.5 MB",
        "not there: no_such",
        "not there: texts/b.txt",
        "not there: texts/c.xz",
        "not there: texts/f",
    ]


def test_a_step_gets_its_share_of_a_gpus_memory_unless_the_caller_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYTORCH_ALLOC_CONF", raising=False)
    Path("say.py").write_text("import os; print(os.environ.get('PYTORCH_ALLOC_CONF'))")
    plan(
        {"name": "a", "run": "{python} say.py", "memory": 0.25},
        {"name": "b", "run": "{python} say.py"},
    )
    called()
    assert Path("out/a.log").read_text().splitlines()[-1] == "per_process_memory_fraction:0.25"
    assert Path("out/b.log").read_text().splitlines()[-1] == "None"
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "")
    plan({"name": "c", "run": "{python} say.py", "memory": 0.25})
    called()
    assert Path("out/c.log").read_text().splitlines()[-1] == ""


def test_a_plan_does_not_begin_without_its_packages() -> None:
    plan(noting("a"))
    content = yaml.safe_load(Path("plan.yaml").read_text())
    Path("plan.yaml").write_text(yaml.safe_dump(content | {"packages": ["json", "no_such"]}))
    assert called(code=2) == "error: not on PYTHONPATH, nor installed: no_such\n"
    assert not Path("out").exists()


def test_a_wrong_plan_is_refused_in_one_line() -> None:
    plan(noting("a", minutes=0))
    assert called(code=2) == "error: plan.yaml: steps.1.minutes: must be more than 0\n"
    assert not Path("out").exists()


def test_an_unknown_variable_is_refused() -> None:
    plan(noting("a"), text="x")
    assert "unknown variable txet (did you mean text?)" in called("--set", "txet=y", code=2)
