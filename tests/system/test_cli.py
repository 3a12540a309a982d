"""The command itself: help, mistakes, and output that cannot be written or read.

What only an own process can show runs in one; the rest runs here, where torch is loaded.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import transduce
from tests.command import Command
from transduce.config.kinds import kind_names
from transduce.config.load import load_config
from transduce.config.presets import all_presets


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "transduce", *arguments],
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
def test_help_names_every_command(arguments: tuple[str, ...], command: Command) -> None:
    result = command(*arguments)
    assert result.code == 0
    assert all(f"  {name} " in result.out for name in ("describe", "presets", "data"))


def test_describe_shows_the_exact_size_and_how_it_differs_from_base(command: Command) -> None:
    shown = command("describe", "base", "--set", "model.attention_bias=true").out
    assert re.search(r"^ *total +63,082,496 ", shown, re.MULTILINE)
    assert re.search(r"^ *difference from base +\+36,864 ", shown, re.MULTILINE)


def test_describe_measures_sentences_that_the_model_can_read(command: Command) -> None:
    shown = command("describe", "tiny", "--set", "model.max_positions=20")
    assert shown.code == 0, shown.err
    assert "sentences of 20 tokens" in " ".join(shown.out.split())
    assert "sentences of 32 tokens" in " ".join(command("describe", "tiny").out.split())


def test_settings_printed_as_yaml_describe_the_same_model(tmp_path: Path, command: Command) -> None:
    path, changes = tmp_path / "mine.yaml", ("--set", "model.norm=pre", "--set", "model.d_k=16")
    path.write_text(command("describe", "tiny", *changes, "--yaml").out, encoding="utf-8")
    by_name = command("describe", "tiny", *changes).out
    by_file = command("describe", path).out
    assert by_file.split("\n\n")[1:] == by_name.split("\n\n")[1:]


def test_presets_are_listed_whole_in_80_columns(command: Command) -> None:
    lines = command("presets").out.splitlines()
    shown = {line.split()[0] for line in lines if line.strip("─ ")}
    headings = {f"model.kind={kind}" for kind in kind_names()}
    assert shown == {*headings, "preset", *all_presets()}
    assert max(len(line) for line in lines) <= 80
    assert not any("…" in line for line in lines)


def test_presets_show_steps_that_are_no_whole_thousands(command: Command) -> None:
    assert load_config("memory_network").training.steps == 1_500
    [row] = [
        line for line in command("presets").out.splitlines() if line.startswith("memory_network")
    ]
    assert row.split()[-1] == "1.5K"


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
        (("descrbe", "base"), "no command 'descrbe' (did you mean describe or score?); see '"),
        (("data", "chek"), "no command 'chek' (did you mean check?); see 'transduce data --help"),
        (("describe",), "PRESET|CONFIG.yaml|MODEL is missing; see 'transduce describe --help"),
        (("describe", "base", "x"), "more arguments than the command takes: x; see 'transduce des"),
        (("train", "a.en", "a.de"), "a.de; for a text, write --src or --tgt before each file;"),
        (("evaluate", "m", "a.en", "a.de"), "for a text, write --src or --ref before each file"),
        (("describe", "base", "--length"), "--length needs a value"),
        (("describe", "base", "--length", "0"), "--length 0: must be 1 or more"),
        (("describe", "base", "--lenght", "5"), "no option --lenght (did you mean --length?)"),
        (("translate", "model", "--beam", "x"), "--beam x: must be a whole number"),
        (("train", "--minutes", "abc"), "--minutes abc: must be a number"),
        (("train", "--src", "a", "--tgt", "b", "--out", "c", "--minutes", "-3"), "more than 0"),
        (("export", "model"), "--to is missing: choose from: ctranslate2, huggingface"),
        (("describe", "base", "--set", "optimiser.lr=3"), "did you mean training.learning_rate?"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_code_2(
    arguments: tuple[str, ...], message: str, command: Command
) -> None:
    assert message in command(*arguments).mistake()


def test_a_mistake_ends_the_process_with_code_2() -> None:
    result = run("describe", "bse")
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize(
    "arguments", [("--debug", "describe", "bse"), ("describe", "bse", "--debug")]
)
def test_debug_shows_the_traceback(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.returncode == 1
    assert "Traceback" in result.stderr
    assert "ConfigError: no preset or file named 'bse'" in result.stderr


def test_a_file_name_is_shown_as_it_is(tmp_path: Path, command: Command) -> None:
    path = tmp_path / "[red]mine[bold].yaml"
    path.write_text("preset: tiny")
    assert "[red]mine[bold].yaml" in command("describe", path, env={"COLUMNS": "500"}).out


def test_lengths_beyond_the_default_can_be_described(command: Command) -> None:
    longer = ("--set", "model.max_positions=4096", "--length", "2000")
    assert command("describe", "tiny", *longer).code == 0


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
