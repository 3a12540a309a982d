"""`translate` writes only what is its own, one command at a time, and reads only what stays."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.command import Command
from tests.translation.likely import random_model, saved, sentences
from transduce.bulk import workers
from transduce.cli.translation import lines as translated_lines
from transduce.files.atomic import atomic_file, partial_name
from transduce.files.locks import locked_own_file
from transduce.translation.load import load

LINES = list(sentences(22))
PRECIOUS = b"precious\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("models") / "one", random_model(seed=5, max_positions=12))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "a.en"
    path.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("plant", "what"),
    [
        (os.symlink, "it is a link"),
        (os.link, "it is a hard link"),
        (lambda _victim, name: name.symlink_to("nowhere"), "it is a link"),
        (lambda _victim, name: os.mkfifo(name), "it is not a regular file"),
    ],
    ids=["link", "hard link", "dangling link", "pipe"],
)
def test_what_is_planted_under_a_name_that_can_be_guessed_is_left_alone(
    plant: Callable[[Path, Path], None], what: str, model: Path, text: Path, command: Command
) -> None:
    victim, out = text.with_name("victim"), text.with_name("out")
    victim.write_bytes(PRECIOUS)
    plant(victim, partial_name(out))
    message = command("translate", model, text, "--beam", "1", "--out", out).mistake()
    assert message == f"{partial_name(out)} is in the way, and {what}: move it away"
    assert victim.read_bytes() == PRECIOUS
    assert not text.with_name("nowhere").exists()
    assert not out.exists()


@pytest.mark.parametrize("source", ["file", "pipe"])
@pytest.mark.parametrize(
    "writing",
    [atomic_file, lambda out: locked_own_file(partial_name(out), written=out)],
    ids=["of a pipe", "of a file"],
)
def test_the_second_writer_of_a_file_is_refused(
    writing: Callable[[Path], AbstractContextManager[Any]],
    source: str,
    model: Path,
    text: Path,
    command: Command,
) -> None:
    out = text.with_name("out")
    given = [text] if source == "file" else []
    words: list[str | Path] = ["translate", model, *given, "--beam", "1", "--out", out]
    with writing(out):
        message = command(*words, given=b"One line.\n").mistake()
    assert message == f"another command is writing {out}: let it end"
    done = command(*words, given=b"One line.\n")
    assert done.code == 0, done.err
    assert out.read_text(encoding="utf-8").count("\n") == (22 if source == "file" else 1)


@pytest.mark.parametrize("to_file", [True, False], ids=["to a file", "printed"])
@pytest.mark.parametrize(
    ("size", "left"), [(0.5, "now has 11"), (1.0, "now has 22"), (2.0, "now has 44")]
)
def test_input_that_changes_while_it_is_translated_is_an_error(
    size: float,
    left: str,
    to_file: bool,
    model: Path,
    text: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is cut, changed or appended to after it was counted and before it is translated."""
    monkeypatch.setattr(translated_lines, "WINDOW_OF_FILE", 5)
    out = text.with_name("out")

    def changed_meanwhile(*arguments: Any, **named: Any) -> Any:
        before = text.stat()
        text.write_text("An a.\n" * int(size * len(LINES)), encoding="utf-8")
        os.utime(text, ns=(before.st_atime_ns, before.st_mtime_ns))
        return load(*arguments, **named)

    monkeypatch.setattr(workers, "load", changed_meanwhile)
    to = ["--out", str(out)] if to_file else []
    done = command("translate", model, text, "--beam", "1", *to)
    assert done.code == 2
    assert done.err.splitlines()[-1] == (
        f"transduce: {text} was changed while it was translated: it had 22 lines and {left}; "
        "run the command again once it stays the same"
    )
    assert not out.exists()


def test_prefixes_that_change_meanwhile_are_an_error(
    model: Path, text: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefixes = text.with_name("prefixes")
    prefixes.write_text("a\n" * len(LINES))

    def changed_meanwhile(*arguments: Any, **named: Any) -> Any:
        prefixes.write_text("b\n" * len(LINES))
        return load(*arguments, **named)

    monkeypatch.setattr(workers, "load", changed_meanwhile)
    done = command("translate", model, text, "--beam", "1", "--prefix", prefixes)
    assert done.code == 2
    assert f"{prefixes} was changed while it was read" in done.err
