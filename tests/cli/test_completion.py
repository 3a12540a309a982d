"""A shell completes commands, options and their values, without loading torch."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(sys.executable).parent
"""Where the command `transduce` is installed."""
WATCHED = """
import json, os, sys
from transduce.cli.app import main
for asked in json.load(sys.stdin):
    os.environ.update(asked)
    sys.argv = ["transduce"]
    try:
        main()
    except SystemExit as end:
        assert not end.code
    print(end="\\0")
print("torch" in sys.modules, file=sys.stderr)
"""
AMONG = {
    "transduce tra": {"train", "translate"},
    "transduce train --preset ti": {"tiny"},
    "transduce describe b": {"base", "big"},
    "transduce train --set model.d_": {"model.d_model=", "model.d_ff=", "model.d_k="},
    "transduce train --set model.kin": {"model.kind=transformer"},
    "transduce translate run --device cu": {"cuda", "cuda:0"},
    "transduce translate run --engine ": {"auto", "torch", "ctranslate2"},
    "transduce export run --to ": {"ctranslate2", "huggingface"},
    "transduce data get multi": {"multi30k"},
    "transduce data get op": {"opus:Europarl:", "opus:Tatoeba:"},
}


def protocol(line: str, shell: str) -> dict[str, str]:
    """Return the variables by which the script of a shell asks when Tab is pressed."""
    words = shlex.split(line) + ([""] if line.endswith(" ") else [])
    return {
        "_TRANSDUCE_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": "\n".join(words),
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }


def answers(*asked: tuple[str, str]) -> list[list[str]]:
    """Return what the command answers to lines in shells, all in one process."""
    done = subprocess.run(
        [sys.executable, "-c", WATCHED],
        input=json.dumps([protocol(line, shell) for line, shell in asked]),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == "False\n", "a Tab key must not wait for torch"
    return [printed.split("\n")[:-1] for printed in done.stdout.split("\0")[:-1]]


@pytest.fixture(scope="module")
def in_bash() -> dict[str, list[str]]:
    return dict(zip(AMONG, answers(*((line, "bash") for line in AMONG)), strict=True))


@pytest.mark.parametrize("line", AMONG)
def test_bash_gets_the_words_that_fit(line: str, in_bash: dict[str, list[str]]) -> None:
    found = in_bash[line]
    assert AMONG[line] <= set(found)
    last = "" if line.endswith(" ") else line.split()[-1]
    assert all(word.startswith(last) for word in found)


def test_zsh_and_fish_also_get_what_the_words_mean() -> None:
    zsh, fish = answers(
        ("transduce train --preset big", "zsh"), ("transduce train --set model.norm=p", "fish")
    )
    assert zsh == ["""_arguments '*: :(("big":"The paper''s big model (Table 3)."))'"""]
    assert [row.partition("\t")[0] for row in fish] == ["model.norm=post", "model.norm=pre"]
    assert all("layer norm" in row for row in fish)


def test_files_are_left_to_the_shell() -> None:
    line = "transduce translate run"
    assert answers((line, "bash"), (line, "zsh")) == [[""], ["_files"]]


def bash(script: str, **variables: str) -> str:
    found = shutil.which("bash")
    if found is None:
        pytest.skip("there is no bash")
    here = dict(os.environ)  # noqa: TID251
    here |= {"PATH": f"{FOLDER}{os.pathsep}{here['PATH']}", **variables}
    command = [found, "--norc", "-c", script]
    return subprocess.run(command, env=here, capture_output=True, text=True, check=True).stdout


def test_the_installed_script_works_in_bash(tmp_path: Path) -> None:
    said = bash("transduce --install-completion; true", HOME=str(tmp_path))
    assert "bash completion installed" in said
    words = (
        "COMP_WORDS=(transduce train --preset ti); COMP_CWORD=3; _transduce_completion transduce"
    )
    script = f'source ~/.bashrc; {words}; printf "%s" "${{COMPREPLY[*]}}"'
    assert bash(script, HOME=str(tmp_path)) == "tiny"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(shell: str) -> None:
    script = bash(f"_TRANSDUCE_COMPLETE=source_{shell} transduce")
    assert f"_TRANSDUCE_COMPLETE=complete_{shell}" in script
