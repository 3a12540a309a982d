"""An option with one value is refused if it is given twice, in every command."""

from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from tests.command import Command
from transduce.cli.app import app


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Walk through the groups and the commands, each with the words that name it."""
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


ALL = dict(commands(get_command(app)))


def options(path: tuple[str, ...]) -> list[Any]:
    return [one for one in ALL[path].params if one.param_type_name == "option"]


def given(option: Any, name: str) -> list[str]:
    """Write an option with its values, if it has any."""
    return [name] if option.is_flag else [name, *["1"] * option.nargs]


@pytest.mark.parametrize("path", ALL, ids=lambda path: " ".join(path) or "transduce")
def test_every_option_with_one_value_is_refused_twice(
    path: tuple[str, ...], command: Command
) -> None:
    for option in options(path):
        if option.multiple or (option.is_flag and not option.secondary_opts):
            continue
        names = [*option.opts, *option.secondary_opts]
        for first in names:
            for second in names:
                arguments = [*given(option, first), *given(option, second)]
                # With --help, so that a command that takes both would not start its work.
                message = command(*path, *arguments, "--help").mistake()
                assert first in message
                assert "is given twice" in message
                assert "give it once" in message


def test_there_are_options_of_every_kind_to_test() -> None:
    found = [option for path in ALL for option in options(path)]
    assert sum(not option.is_flag and not option.multiple for option in found) > 50
    assert any(option.multiple for option in found)
    assert any(option.is_flag for option in found)
    assert ("data", "check") in ALL


@pytest.mark.parametrize(
    "arguments",
    [
        ("translate", "model", "--beam", "4", "--beam", "5"),
        ("translate", "model", "--beam=4", "x.en", "--beam=4"),
    ],
)
def test_a_beam_given_twice_is_refused(arguments: tuple[str, ...], command: Command) -> None:
    assert (
        command(*arguments).mistake() == "--beam is given twice, but it has one value: give it once"
    )


def test_the_number_of_times_is_told(command: Command) -> None:
    message = command("describe", "base", *("--length", "5") * 3).mistake()
    assert message.startswith("--length is given 3 times")


def test_lists_and_flags_may_be_repeated(command: Command) -> None:
    changes = ("--set", "model.norm=pre", "--set", "model.d_k=16")
    once = command("describe", "tiny", *changes, "--yaml")
    assert once.code == 0
    assert command("describe", "tiny", *changes, "--yaml", "--yaml") == once
    assert "d_k: 16" in once.out


def test_what_only_looks_like_an_option_is_not_counted(command: Command) -> None:
    message = command("describe", "--length", "5", "--", "--length").mistake()
    assert "no preset or file named '--length'" in message
