"""The real command, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import transduce


def run(
    *arguments: str, folder: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "transduce", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"COLUMNS": "80"} | environment,  # noqa: TID251 - the tests pass their own on
    )


def test_the_installed_command_is_the_module() -> None:
    command = Path(sys.executable).with_name("transduce")
    result = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert result.stdout == run("--version").stdout == f"transduce {transduce.__version__}\n"


@pytest.mark.parametrize("arguments", [(), ("--help",)])
def test_help_names_every_command(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.returncode == 0
    assert all(f"  {command} " in result.stdout for command in ("describe", "presets", "data"))


def test_describe_shows_the_exact_size_with_and_without_biases() -> None:
    assert "total                          63,045,632 " in run("describe", "base").stdout
    with_biases = run("describe", "base", "--set", "model.attention_bias=true").stdout
    assert "total                          63,082,496 " in with_biases
    assert "difference from base              +36,864 " in with_biases


def test_settings_printed_as_yaml_describe_the_same_model(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(run("describe", "base_dk16", "--set", "model.norm=pre", "--yaml").stdout)
    by_name = run("describe", "base_dk16", "--set", "model.norm=pre").stdout
    assert run("describe", str(path)).stdout.split("\n\n")[1:] == by_name.split("\n\n")[1:]


def test_presets_are_listed_whole_in_80_columns() -> None:
    from transduce.config.presets import PRESETS

    lines = run("presets").stdout.splitlines()
    assert {line.split()[0] for line in lines if line.strip("─ ")} == {"preset", *PRESETS}
    assert max(len(line) for line in lines) <= 80
    assert not any("…" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("describe", "bse"), "no preset or file named 'bse' (did you mean base?)"),
        (("describe", "base", "--set", "model.d_modle=1"), "did you mean model.d_model?"),
        (("describe", "base", "--set", "model.h=7"), "model.h=7 does not divide"),
        (("describe", "base", "--length", "5000"), "longer than model.max_positions=1024"),
        (("describe", "base", "--length", "9" * 20), "--length"),
        (("describe", "base", "--lenght", "5"), "--lenght"),
        (("describe", "base", "--set", "model.max_positions=" + "9" * 12), "model.max_positions="),
        (("describe", "x" * 5000), "no preset or file named 'xxx"),
        (("describe", ""), "no preset or file named ''"),
        (("describe", "no/such/file.yaml"), "cannot read no/such/file.yaml"),
        (("describe",), "PRESET|CONFIG.yaml"),
        (("descrbe", "base"), "descrbe"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_code_2(
    arguments: tuple[str, ...], message: str
) -> None:
    result = run(*arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("transduce: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr


@pytest.mark.parametrize(
    "arguments", [("--debug", "describe", "bse"), ("describe", "bse", "--debug")]
)
def test_debug_shows_the_traceback(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.returncode == 1
    assert "Traceback" in result.stderr
    assert "ConfigError: no preset or file named 'bse'" in result.stderr


def test_a_file_name_is_shown_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "[red]mine[bold].yaml"
    path.write_text("preset: tiny")
    assert "[red]mine[bold].yaml" in run("describe", str(path), COLUMNS="500").stdout


def test_lengths_beyond_the_default_can_be_described() -> None:
    result = run("describe", "tiny", "--set", "model.max_positions=4096", "--length", "2000")
    assert result.returncode == 0


def test_a_full_disk_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "transduce", "presets"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert result.returncode == 2
    assert result.stderr == "transduce: cannot write the output: No space left on device\n"


def test_a_terminal_without_unicode_still_gets_its_table() -> None:
    result = run("presets", PYTHONIOENCODING="ascii")
    assert result.returncode == 0
    assert "base_learned" in result.stdout


def test_a_reader_that_stops_early_causes_no_traceback() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "transduce", "presets"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    process.wait()
    assert b"Traceback" not in errors
