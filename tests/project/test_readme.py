"""The README's commands run and print what it shows.

In a `console` block a line that starts with `$ ` is a command, and what follows is what it prints;
a line of `…` stands for anything left out. `transduce` commands are run, `make` targets are looked
up (this test runs inside one of them), and any other command is a fault. `python` blocks are run.
"""

import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def readme_faults(text: str) -> list[str]:
    faults = []
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    for language, body in blocks:
        if language == "console":
            for entry in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                command, _, shown = entry.partition("\n")
                faults += command_faults(command, shown)
        elif language == "python":
            result = run(sys.executable, "-c", body)
            if result.returncode:
                faults.append(f"python block: {result.stderr}")
        else:
            faults.append(f"a block of {language or 'nothing'} that no one checks")
    return faults


def command_faults(command: str, shown: str) -> list[str]:
    program, *arguments = shlex.split(command)
    if program == "make":
        result = run("make", "--dry-run", *arguments)
        return [f"{command}: {result.stderr}"] if result.returncode else []
    if program != "transduce":
        return [f"{command}: not a command that is checked"]
    result = run(sys.executable, "-m", "transduce", *arguments)
    if result.returncode:
        return [f"{command}: {result.stderr}"]
    printed = "\n".join(line.rstrip() for line in result.stdout.splitlines())
    parts = [re.escape(part.strip("\n")) for part in re.split(r"^…$", shown, flags=re.MULTILINE)]
    if shown.strip() and not re.fullmatch(r"\n*" + ".*".join(parts) + r"\n*", printed, re.DOTALL):
        return [f"{command} prints\n{printed}"]
    return []


@cache
def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_readme_is_true() -> None:
    assert readme_faults(README) == []


@pytest.mark.parametrize(
    ("true", "planted"),
    [
        ("$ make test", "$ make tset"),
        ("$ transduce presets", "$ transduce preset"),
        ("63,045,632", "65,000,000"),
        ("build_model(", "built_model("),
        ("```console", "```sh"),
        ("$ make test", "$ curl example.org"),
    ],
)
def test_a_planted_fault_is_found(true: str, planted: str) -> None:
    assert true in README
    assert readme_faults(README.replace(true, planted, 1)) != []
