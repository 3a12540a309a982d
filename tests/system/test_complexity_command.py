"""`transduce complexity`: the table, the picture and the measurements, from the real command."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

from tests.command import Command

SMALL = ("--n", "8,16", "--d", "8,16", "--r", "4", "--device", "cpu")


def test_it_prints_the_table_draws_it_and_shows_it_again(tmp_path: Path, command: Command) -> None:
    measured, picture = tmp_path / "measured.json", tmp_path / "table.svg"
    first = command("complexity", *SMALL, "--json", measured, "--out", picture)
    assert first.code == 0
    lines = first.out.splitlines()
    assert max(map(len, lines)) <= 80
    order = ["self-attention", "recurrent", "convolutional,", "convolutional,", "restricted"]
    paper = ["O(n²·d)", "O(n·d²)", "O(k·n·d²)", "O(k·n·d²)", "O(r·n·d)"]
    rows = [line.split() for line in lines if len(line.split()) > 1 and line.split()[1] in paper]
    assert [row[0] for row in rows] == order
    assert [row[1] for row in rows] == paper
    assert [row[2] for row in rows[:3]] == ["n^2.00", "n^1.00", "n^1.00"]  # counted
    assert [row[-3:] for row in rows[1:3]] == [["O(n)", "16,", "16"], ["O(n/k)", "15,", "8"]]
    assert "O(log_k n) 4, 3" in first.out
    assert picture.read_text().startswith("<?xml")
    found = json.loads(measured.read_text())
    assert {(cost["n"], cost["d"]) for cost in found["costs"]} == {
        (n, d) for n in (8, 16) for d in (8, 16)
    }
    assert all(cost["forward_s"] > 0 and cost["backward_s"] > 0 for cost in found["costs"])

    again = command("complexity", "--from", measured, "--out", tmp_path / "again.png")
    assert (again.code, again.out) == (0, first.out)
    assert (tmp_path / "again.png").read_bytes().startswith(b"\x89PNG")


def test_it_measures_without_what_the_command_line_needs(tmp_path: Path, command: Command) -> None:
    """On a machine that has torch and pydantic alone."""
    hide = "import sys; sys.modules.update(dict.fromkeys(['typer', 'rich', 'matplotlib', 'yaml']))"
    run = "import runpy; runpy.run_module('transduce.analysis.complexity', run_name='__main__')"
    written = tmp_path / "measured.json"
    arguments = ("--n", "8", "--d", "8", "--device", "cpu", "--json", str(written))
    subprocess.run(
        [sys.executable, "-c", f"{hide}; {run}", *arguments], check=True, capture_output=True
    )
    assert "recurrent" in command("complexity", "--from", written).out


def test_mistakes_are_one_line(tmp_path: Path, command: Command) -> None:
    assert command("complexity", "--n", "1,two").mistake().startswith("--n '1,two'")
    assert "must end in .png" in command("complexity", "--out", tmp_path / "x.gif").mistake()
    assert "--from measures nothing" in command("complexity", "--from", "x.json", "--all").mistake()
    missing = command("complexity", "--from", tmp_path / "no.json").mistake()
    assert missing.startswith(f"cannot read {tmp_path / 'no.json'}")
    other = tmp_path / "other.json"
    other.write_text('{"scores": []}')
    assert (
        "has no measurements of layers: measured_on"
        in command("complexity", "--from", other).mistake()
    )


def test_nothing_that_torchs_profiler_writes_is_shown(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = torch.autograd.profiler.profile.__enter__

    def noisy(profiler: torch.autograd.profiler.profile) -> object:
        os.write(2, b"USDT: SyncActivityProfilerHandler.cpp:52] profiler_start\n")
        warnings.warn("Profiler clears events at the end of each cycle", stacklevel=1)
        return start(profiler)  # type: ignore[no-untyped-call]

    monkeypatch.setattr(torch.autograd.profiler.profile, "__enter__", noisy)
    result = command("complexity", "--n", "8", "--d", "8", "--r", "4", "--device", "cpu")
    assert result.code == 0
    assert "rofiler" not in result.err
    names = [line[:14].rstrip() for line in result.out.splitlines()]
    assert names[names.index("  eq. 1 step") + 1] == "  by step", "as far in as its first line"
