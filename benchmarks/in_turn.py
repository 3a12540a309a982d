"""Run the commands of a plan in turn, go on where it was stopped, and collect the results.

    python benchmarks/in_turn.py PLAN.yaml --out DIR [--set NAME=VALUE …] [--seconds 560]
        [--collect DIR] [--show]

For machines that are available for minutes, and end a command that lasts too long. The first call
starts a process, the supervisor, that runs the steps and outlives the call; later calls with the
same DIR follow it. A call returns when no step runs and none can start, or after `--seconds`: 0 if
all steps are done, 1 if one failed, 2 if the plan is wrong, 3 if it is not over. The same command
then goes on: a step that is done is not run again, one that failed is, and one whose supervisor was
killed is ended and run again. `--show` runs nothing: it prints when each step would begin and end,
and which packages and files below {data} are not there.

A plan has `minutes`, its budget; `packages` of Python, without which it does not begin;
`variables`, a default for each {name} in its texts; and `steps`:

- `name`, and `run`: a command without a shell. {python} is this Python, {out} is DIR. A variable
  that is a word by itself may have several words, or none;
- `lane`: any name. In each lane one step runs at a time, the first that can;
- `minutes`: how long it takes; `limit_minutes`: after that it is ended, with all its processes;
- `memory`: the share of a GPU's memory that torch may take in each of its processes, so that steps
  beside each other all have some (torch 2.10 and later). `PYTORCH_ALLOC_CONF=`, set empty before
  the call, does without all such limits;
- `after`: steps that must be done before. After one that failed, a step is not run;
- `over`: steps that must be over before, whether they are done, failed or were not run;
- `when`: files that must have arrived, that is, be there when a call begins. Files that are copied
  while steps run are complete once the next call begins;
- `keep`: small results, as patterns of files.

DIR/status.json says how far each step has come, DIR/NAME.log has its output. With `--collect`,
results.tar.gz there has both and what `keep` names, under the paths that they have here.
"""

import argparse
import fcntl
import io
import json
import math
import os
import shlex
import signal
import subprocess
import sys
import tarfile
import time
import traceback
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from plan_file import Plan, Step, expected_times, read_plan

from transduce.errors import ConfigError
from transduce.files.atomic import atomic_file
from transduce.files.locks import is_locked

POLL_S, SHOW_S, GRACE_S = 0.1, 30.0, 20.0
LOG_END, MAX_KEPT, MAX_RESULTS = 200_000, 60_000_000, 15_000_000
"""Bytes: of a log, of a file that is kept, and of all results, compressed."""
STATUS, ARRIVED, LOCK, SUPERVISOR = "status.json", "arrived.json", ".lock", "supervisor.log"
LIMIT = "PYTORCH_ALLOC_CONF"
OVER = {"done", "failed", "not run"}
NOT_OVER = 3
Record = dict[str, Any]
"""Of a step: its command, its state (waiting, running, done, failed, not run) and what it took."""
Process = subprocess.Popen[bytes]


def read_json(path: Path) -> dict[str, Any]:
    """Return what a file holds; nothing if it is not there."""
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file that is complete, or as it was, if the process is killed."""
    with atomic_file(path) as part:
        part.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def log_of(out: Path, name: str) -> Path:
    """Return the file of a step's output; while processes of the step live, it is locked."""
    return out / f"{name}.log"


def start_supervisor(steps: Sequence[Step], out: Path) -> None:
    """Start the process that runs the steps, unless it is alive."""
    with (out / LOCK).open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            running = {name: record["command"] for name, record in read_json(out / STATUS).items()}
            if running != {step.name: [*step.command] for step in steps}:
                raise ConfigError(f"{out}: another plan, or other values, run there") from None
            return
        records = first_records(steps, out)
        write_json(out / STATUS, records)
        sys.stdout.flush()
        if os.fork():
            return
        try:  # the supervisor: it holds the lock as long as it lives
            os.setsid()
            log = os.open(out / SUPERVISOR, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            for stream, target in enumerate((os.open(os.devnull, os.O_RDONLY), log, log)):
                os.dup2(target, stream)
            supervise(steps, records, out)
        except BaseException:  # noqa: BLE001 - nobody else would report it
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(0)


def first_records(steps: Sequence[Step], out: Path) -> dict[str, Record]:
    """Return the records that a supervisor starts with, after ending what a killed one left."""
    before = read_json(out / STATUS)
    for name, record in before.items():
        if record["state"] == "running":
            end_group(record["pid"], log_of(out, name))
        elif record["state"] == "waiting" and is_locked(log_of(out, name)):
            # It was started just before its supervisor was killed, which had not noted it yet.
            raise ConfigError(f"{log_of(out, name)} is still written by an earlier step: end that")
    records: dict[str, Record] = {}
    for step in steps:
        new = {"state": "waiting", "command": [*step.command]}
        old = before.get(step.name, new)
        is_done = old["state"] == "done" and old["command"] == new["command"]
        records[step.name] = old if is_done else new
    return records


def supervise(steps: Sequence[Step], records: dict[str, Record], out: Path) -> None:
    """Run steps until none runs and none can start."""
    running: dict[Step, Process] = {}
    written = ""
    while running or written != str(records):
        if written != str(records):
            write_json(out / STATUS, records)
            written = str(records)
        time.sleep(POLL_S)
        for step, process in [*running.items()]:
            if outcome := outcome_of(step, process, records[step.name], out):
                records[step.name] |= outcome
                del running[step]
        arrived = read_json(out / ARRIVED).get("files", [])
        for step in [step for step in steps if records[step.name]["state"] == "waiting"]:
            states = {other: records[other]["state"] for other in step.after}
            is_free = step.lane not in {other.lane for other in running}
            is_free &= {records[other]["state"] for other in step.over} <= OVER
            if bad := [other for other in states if states[other] in ("failed", "not run")]:
                why = f"after {bad[0]}: {states[bad[0]]}"
                records[step.name] |= {"state": "not run", "why": why}
            elif is_free and {*states.values()} <= {"done"} and {*step.when} <= {*arrived}:
                try:
                    running[step] = process = start(step, out)
                except OSError as fault:
                    records[step.name] |= {"state": "failed", "why": str(fault)}
                else:
                    now = {"state": "running", "pid": process.pid, "began": time.time()}
                    records[step.name] |= now


def start(step: Step, out: Path) -> Process:
    """Start a step in a process group of its own."""
    limit = {LIMIT: f"per_process_memory_fraction:{step.memory:g}"} if step.memory else {}
    with log_of(out, step.name).open("ab") as log:
        fcntl.flock(log, fcntl.LOCK_SH)  # inherited by whatever writes there
        log.write(f"$ {shlex.join(step.command)}\n".encode())
        log.flush()
        return subprocess.Popen(
            step.command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=limit | os.environ | {"PYTHONUNBUFFERED": "1"},  # noqa: TID251 - passed on
        )


def outcome_of(step: Step, process: Process, record: Record, out: Path) -> Record:
    """Return what has become of a step, nothing while it runs. What it leaves behind is ended."""
    seconds, why = time.time() - record["began"], ""
    if not os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if seconds < 60 * step.limit_minutes:
            return {}
        why = f"ended after {step.limit_minutes:g} minutes, its limit"
        end_group(process.pid, log_of(out, step.name))
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    if (code := process.wait()) and not why:
        why = f"exit code {code}"
    state = "failed" if why else "done"
    return {"state": state, "why": why, "code": code, "seconds": round(seconds, 3)}


def end_group(group: int, log: Path) -> None:
    """End the processes of a step: first so that it can save what it has."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        last = time.monotonic() + GRACE_S
        with suppress(ProcessLookupError):
            if is_locked(log):
                os.killpg(group, number)
        while is_locked(log) and time.monotonic() < last:
            time.sleep(POLL_S)


def follow(out: Path, seconds: float) -> dict[str, Record]:
    """Print what happens until nothing does, or the time is over; return the last records."""
    shown: dict[str, str] = {}
    last, next_show = time.monotonic() + seconds, time.monotonic() + SHOW_S
    while True:
        is_alive = is_locked(out / LOCK)  # looked at first, so that its last words are read
        records = read_json(out / STATUS)
        is_due = time.monotonic() >= next_show
        next_show += SHOW_S if is_due else 0
        for name, record in records.items():
            is_new = shown.get(name, "waiting") != record["state"]
            if is_new or (is_due and record["state"] == "running"):
                say(out, name, record)
            shown[name] = record["state"]
        if not is_alive or time.monotonic() >= last:
            break
        time.sleep(POLL_S)
    if not is_alive and "running" in shown.values():
        print(f"the supervisor was ended ({out / SUPERVISOR}); the same command goes on")
    return records


def say(out: Path, name: str, record: Record) -> None:
    """Print the state of a step, and the end of its output while it runs or if it failed."""
    took = f" after {record['seconds']:.0f} s" if "seconds" in record else ""
    print(f"{name}: {record['state']}{took} {record.get('why', '')}".rstrip(), flush=True)
    count = {"running": 1, "failed": 10}.get(record["state"], 0)
    log = log_of(out, name).read_bytes() if count and log_of(out, name).exists() else b""
    lines = [line for line in log[-8000:].decode(errors="replace").splitlines() if line.strip()]
    for line in lines[len(lines) - count :] if count < len(lines) else lines:
        print(f"    {line[:160]}", flush=True)


def collect(steps: Sequence[Step], out: Path, into: Path) -> None:
    """Write results.tar.gz: the records, the ends of all logs, and what `keep` names."""
    logs = [out / SUPERVISOR, *(log_of(out, step.name) for step in steps)]
    patterns = [str(Path(pattern).absolute())[1:] for step in steps for pattern in step.keep]
    kept = [path for pattern in patterns for path in sorted(Path("/").glob(pattern))]
    left, left_out = MAX_RESULTS, []
    into.mkdir(parents=True, exist_ok=True)
    with tarfile.open(into / "results.tar.gz", "w:gz") as archive:
        for path in dict.fromkeys([out / STATUS, *logs, *kept]):
            name = os.path.relpath(path)
            try:
                is_small = path.stat().st_size <= MAX_KEPT
                content = path.read_bytes() if is_small else b""
            except (FileNotFoundError, IsADirectoryError):  # steps that run remove files too
                continue
            content = content[-LOG_END:] if path in logs else content
            size = len(zlib.compress(content)) + tarfile.BLOCKSIZE
            if not is_small or size > left:
                left_out.append(name)
                continue
            left -= size
            info = tarfile.TarInfo(str(path)[1:] if name.startswith("..") else name)
            info.size, info.mtime = len(content), int(time.time())
            archive.addfile(info, io.BytesIO(content))
    if left_out:
        print(f"too large for the results: {', '.join(left_out)}")


def show(plan: Plan) -> None:
    """Print when each step would begin and end, and its command; then what is not there."""
    times = expected_times(plan.steps)
    for step in plan.steps:
        begin, end = times[step.name]
        print(f"{begin:5.1f} to {end:5.1f}  {step.lane}  {step.name}: {shlex.join(step.command)}")
    print(f"{max(end for _, end in times.values()):.1f} of {plan.minutes:g} minutes")
    here = [path for path in map(Path, plan.inputs) if path.exists()]
    size = sum(path.stat().st_size for path in here if path.is_file())
    if plan.inputs:
        print(f"{len(here)} of {len(plan.inputs)} named inputs are there, {size / 1e6:.1f} MB")
    missing = [path for path in plan.inputs if Path(path) not in here]
    print("".join(f"not there: {name}\n" for name in [*missing_packages(plan), *missing]), end="")


def missing_packages(plan: Plan) -> list[str]:
    """Return the packages of a plan that cannot be imported."""
    return [name for name in plan.packages if find_spec(name) is None]


def main() -> None:
    """Run, follow or show a plan."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("plan", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--collect", type=Path, metavar="DIR")
    parser.add_argument("--show", action="store_true")
    given = parser.parse_args()
    try:
        plan = read_plan(given.plan, given.out, given.set)
        if given.show:
            show(plan)
            return
        if missing := missing_packages(plan):
            raise ConfigError(f"not on PYTHONPATH, nor installed: {', '.join(missing)}")
        given.out.mkdir(parents=True, exist_ok=True)
        files = {file for step in plan.steps for file in step.when}
        write_json(given.out / ARRIVED, {"files": sorted(f for f in files if Path(f).exists())})
        start_supervisor(plan.steps, given.out)
    except ConfigError as fault:
        parser.exit(2, f"error: {fault}\n")
    records = follow(given.out, given.seconds)
    if given.collect:
        collect(plan.steps, given.out, given.collect)
    for step in plan.steps:
        if records[step.name]["state"] == "waiting":
            missing = [file for file in step.when if not Path(file).exists()]
            print(f"{step.name}: waiting {'for ' * bool(missing)}{', '.join(missing)}".rstrip())
    states = {record["state"] for record in records.values()}
    sys.exit(NOT_OVER if states & {"waiting", "running"} else int(states != {"done"}))


if __name__ == "__main__":
    main()
