"""Runs the commands of a document and compares what they print with what it shows.

In a block of `console` a line that starts with `$ ` is a command for bash, and what follows is what
it prints; a line of `…` stands for any lines left out. A block of `python` is run unchanged;
those of `pycon` are one session, which comes last. All run in one folder, from top to bottom.

Training takes minutes, and the figures of a trained model are those of one machine. So blocks
marked `trained` are run in one of two ways:

- `make docs`, or `python -m tests.project.documents FILE …`, runs everything for real. Shown and
  printed may differ only in figures, and in the widths of columns.
- The tests run it in brief: a corpus of a few hundred pairs, two steps of training; what is
  printed is not compared.

`make` targets are only looked up, because a test may run inside one; except for `make demo`, which
is `transduce demo`. So are the extras that `pip install` names: this environment stays as it is.
"""

import contextlib
import doctest
import re
import runpy
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import typer
from typer.testing import CliRunner

from transduce.cli import demo
from transduce.cli.app import app
from transduce.cli.data import demo as data_demo

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("README.md", "docs/PYTHON.md", "docs/TUTORIAL.md", "docs/DEMO_CORPUS.md")
BLOCK = re.compile(r"^```(.*?)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n?", re.MULTILINE)
SET_UP = re.compile(r"python3 -m venv |source \S+/activate$|pip install ")
FIGURE = re.compile(r"\d[\d,.:]*(?:e[-+]\d+)?")
FEW: dict[str, Any] = {"DEV": 8, "TEST": 12}
SMALL: dict[str, Any] = {**FEW, "TRAIN": 300, "STEPS": 2, "QUICK_STEPS": 2}


@dataclass(frozen=True)
class Block:
    """A piece of a document that can be run."""

    language: str
    trained: bool
    body: str


def blocks(text: str) -> Iterator[Block]:
    for info, body in BLOCK.findall(text):
        language, _, rest = info.partition(" ")
        yield Block(language, rest == "trained", body)


def faults(text: str, place: Path, *, brief: bool) -> Iterator[str]:
    """Run a document in a folder, and stream what in it is not true."""
    for block in blocks(text):
        match block.language:
            case "console":
                parts = COMMAND.split(block.body)
                for command, shown in zip(parts[1::2], parts[2::2], strict=True):
                    yield from _command_faults(block, command, shown, place, brief=brief)
            case "python":
                yield from _python_faults(block.body, place)
            case "pycon":
                pass
            case other:
                yield f"a block of {other or 'nothing'}, which is not checked"
    sessions = [block for block in blocks(text) if block.language == "pycon"]
    if sessions:
        trained = any(block.trained for block in sessions)
        body = "\n".join(block.body for block in sessions)
        yield from _session_faults(Block("pycon", trained, body), place, brief=brief)


def _command_faults(
    block: Block, command: str, shown: str, place: Path, *, brief: bool
) -> Iterator[str]:
    if SET_UP.match(command):
        yield from _extra_faults(command)
        return
    program, *arguments = shlex.split(command.replace("\\\n", " "))
    if program == "make":
        found = subprocess.run(
            ["make", "-C", ROOT, "--dry-run", *arguments],  # noqa: S607
            capture_output=True,
            text=True,
            check=False,
        )
        if found.returncode:
            yield f"{command}: {found.stderr}"
        if arguments != ["demo"]:
            return
        command, block = "transduce demo", Block("console", trained=True, body="")
    if brief and block.trained and "serve" not in arguments[:1]:
        yield from _brief_faults(command, place)
        return
    if program == "transduce" and "serve" in arguments[:1]:
        result = _served(command, place)
    elif program == "transduce" and brief:
        result = _invoked(arguments, place)
    else:
        result = _bash(command, place)
    # `timeout` presses Ctrl-C for the reader, and then exits with 124.
    if result.returncode != (124 if program == "timeout" else 0):
        yield f"{command} ends with {result.returncode}: {result.stdout}"
    elif shown.strip() and not _agree(shown, result.stdout, figures=not block.trained):
        yield f"{command} prints\n{result.stdout}"


def _extra_faults(command: str) -> Iterator[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for names in re.findall(r"\[([^]]*)\]", command):
        for name in set(names.split(",")) - set(project["optional-dependencies"]):
            yield f"{command}: there is no extra {name}"


def _brief_faults(command: str, place: Path) -> Iterator[str]:
    """Run a command of ours in this process, with as little work as possible."""
    words = shlex.split(command.replace("\\\n", " "))
    if "transduce" not in words:
        result = _bash(command, place)
        if result.returncode:
            yield f"{command} ends with {result.returncode}: {result.stdout}"
        return
    typed = words[1] if words[0] == "echo" else None
    arguments = words[words.index("transduce") + 1 :]
    match arguments:
        case ["train", *_]:
            arguments = [*_without(arguments, "--minutes", "--steps"), "--steps", "2"]
            arguments += ["--set", "model.max_positions=40"]  # until which it would translate
        case ["sweep", file, *_] if file.endswith(".yaml"):
            text = (place / file).read_text(encoding="utf-8")
            (place / file).write_text(re.sub("steps: [0-9]+}", "steps: 2}", text), encoding="utf-8")
            arguments = [*arguments, "--only", "base"]
        case ["data", "demo", *_]:
            arguments = [*_without(arguments, "--pairs"), "--pairs", "300"]
    with (
        mock.patch.multiple(demo, **SMALL),
        mock.patch.multiple(data_demo, **FEW),
        mock.patch("os.cpu_count", return_value=1),  # so little text needs no second process
        mock.patch("transduce.analysis.curves.draw_curves"),  # which takes longer than two steps
    ):
        result = _invoked(arguments, place, typed)
    if result.returncode:
        yield f"{command} ends with {result.returncode}: {result.stdout}"


def _invoked(
    arguments: list[str], place: Path, typed: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command in this process: a new one would load torch again, which takes seconds."""
    with contextlib.chdir(place):
        done = CliRunner(env={"COLUMNS": "80"}).invoke(app, arguments, input=typed)
    fault = f" {done.exception}" if done.exit_code else ""
    return subprocess.CompletedProcess(arguments, done.exit_code, done.output + fault)


def _without(arguments: list[str], *options: str) -> list[str]:
    """Leave options out, each with its value."""
    return [
        word
        for before, word in zip(["", *arguments], arguments, strict=False)
        if word not in options and before not in options
    ]


def _session_faults(block: Block, place: Path, *, brief: bool) -> Iterator[str]:
    if brief and block.trained:
        examples = doctest.DocTestParser().get_examples(block.body)
        yield from _python_faults("".join(one.source for one in examples), place)
        return
    with _file(block.body) as session:
        result = subprocess.run(
            [sys.executable, "-m", "doctest", session],
            cwd=place,
            capture_output=True,
            text=True,
            check=False,
        )
    if result.returncode:
        yield f"python: {result.stdout}{result.stderr}"


def _python_faults(source: str, place: Path) -> Iterator[str]:
    """Run a program in this process, where torch is loaded."""
    with _file(source) as program, contextlib.chdir(place):
        try:
            runpy.run_path(str(program))
        except Exception as fault:  # noqa: BLE001 - any fault of the document
            yield f"python: {fault!r} in\n{source}"


@contextlib.contextmanager
def _file(text: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "block.txt"
        path.write_text(text, encoding="utf-8")
        yield path


def _bash(command: str, place: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as a reader would, with this environment's programs."""
    bash = shutil.which("bash")
    assert bash is not None, "the documents are for bash, which is not here"
    programs = str(Path(sys.executable).parent)
    return subprocess.run(
        [bash, "-c", f'PATH="$0:$PATH"; {command}', programs],
        cwd=place,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        # Where it is ignored, as under nohup, `timeout --signal INT` could stop nothing.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )


def _served(command: str, place: Path) -> subprocess.CompletedProcess[str]:
    """Start a server on a free port, and stop it when it prints that it serves."""
    process = subprocess.Popen(
        [sys.executable, "-m", *shlex.split(command), "--port", "0"],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if line.startswith("serving "):
            process.terminate()
            break
    process.communicate()
    return subprocess.CompletedProcess(command, process.returncode, "".join(said))


def _agree(shown: str, printed: str, *, figures: bool) -> bool:
    """Compare line by line, but for lines left out, and if asked to without figures."""
    shown, printed = (_plain(text, figures=figures) for text in (shown, printed))
    parts = (re.escape(part.strip("\n")) for part in re.split(r"^…$", shown, flags=re.MULTILINE))
    return re.fullmatch(rf"\n*{'.*'.join(parts)}\n*", printed, re.DOTALL) is not None


def _plain(text: str, *, figures: bool) -> str:
    lines = (line.rstrip() for line in text.splitlines())
    if figures:
        return "\n".join(lines)
    # Columns are as wide as their figures, and as the names of scores that need an extra.
    return "\n".join(re.sub(r"([ ─])\1+", r"\1", FIGURE.sub("0", line)) for line in lines)


def main(documents: list[Path]) -> None:
    """Run documents for real: train what they train."""
    found = 0
    with tempfile.TemporaryDirectory() as place:
        for document in documents:
            typer.echo(f"{document}: running")
            for fault in faults(document.read_text(encoding="utf-8"), Path(place), brief=False):
                found += 1
                typer.echo(f"{document}: {fault}")
    typer.echo(f"{found} faults")
    raise typer.Exit(int(found > 0))


if __name__ == "__main__":
    typer.run(main)
