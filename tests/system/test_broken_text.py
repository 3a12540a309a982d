"""Text with a few broken records, or in another encoding: what is dropped, and what is said."""

import gzip
import json
import subprocess
from pathlib import Path

import pytest

from tests.command import Command
from tests.system.small_runs import changes, short_pairs
from tests.translation.likely import random_model, saved

PAIRS = short_pairs(60, seed=2)


def _tsv(broken: str) -> list[str]:
    lines = [f"{pair.src}\t{pair.tgt}" for pair in PAIRS]
    return [*lines[:10], broken, *lines[10:]]


def _jsonl(broken: str) -> list[str]:
    lines = [json.dumps({"src": pair.src, "tgt": pair.tgt}) for pair in PAIRS]
    return [*lines[:10], broken, *lines[10:]]


def _csv(broken: str) -> list[str]:
    lines = [f'"{pair.src}","{pair.tgt}"' for pair in PAIRS]
    return [*lines[:10], broken, *lines[10:]]


BROKEN = {
    "a.tsv": (_tsv("one\ttwo\tthree"), "3 columns instead of two, separated by a tab: 'one\\ttwo"),
    "b.tsv": (_tsv(""), "1 column instead of two, separated by a tab: ''; add what is missing"),
    "a.csv": (
        _csv("one, two,zwei"),
        "3 columns instead of two, separated by a comma: 'one, two,zwei'; put",
    ),
    "a.jsonl": (_jsonl('{"src": "cut'), "not JSON: Unterminated string"),
    "b.jsonl": (_jsonl('{"src": "one", "tgt": null}'), "no text in field 'tgt'"),
}
"""Files with one broken record, in line 11, and what is said about it."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("broken")
    for name, (lines, _) in BROKEN.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    saved(folder / "model", random_model(seed=5, max_positions=64))
    return folder


@pytest.fixture(autouse=True)
def _in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


@pytest.mark.parametrize("name", BROKEN)
def test_check_counts_and_shows_a_record_that_cannot_be_read(name: str, command: Command) -> None:
    result = command("data", "check", name)
    assert result.code == 0, result.err
    rows = {line.split("  ")[0]: line.split()[-2:] for line in result.out.splitlines() if line}
    assert rows["read"][0] == "61"
    assert rows["dropped: unreadable"][0] == "1"
    assert f"\nunreadable, pair 11:\n  {name} line 11: {BROKEN[name][1]}" in result.out


@pytest.mark.parametrize("clean", [[], ["--no-clean"]])
def test_train_drops_a_record_that_cannot_be_read_and_says_so(
    clean: list[str], tmp_path: Path, command: Command
) -> None:
    files = ["--src", "a.tsv", "--out", str(tmp_path / "run")]
    result = command("train", *files, *clean, *changes(training__steps=1))
    assert result.code == 0, result.err
    assert "dropped a.tsv line 11: 3 columns instead of two" in result.err
    assert "1 unreadable" in result.err
    assert "1 unreadable" in (tmp_path / "run/README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl"])
@pytest.mark.parametrize("arguments", [("translate", "model"), ("score", "model", "--src")])
def test_where_lines_must_stay_in_step_a_broken_record_is_an_error(
    name: str, arguments: tuple[str, ...], command: Command
) -> None:
    assert f"{name} line 11: {BROKEN[name][1]}" in command(*arguments, name).mistake()


def test_a_file_with_many_broken_records_is_another_file(tmp_path: Path, command: Command) -> None:
    path = tmp_path / "mixed.tsv"
    path.write_text("a\tb\n" + "a\tb\tc\n" * 3, encoding="utf-8")
    message = command("data", "check", path).mistake()
    assert "mixed.tsv line 2: 3 columns instead of two, separated by a tab: 'a\\tb\\tc'" in message
    assert message.endswith("(and 2 more of 4 are broken)")
    assert "mixed.tsv line 2" in command("train", "--src", path, "--out", tmp_path / "run").err


# Other encodings


@pytest.mark.parametrize(
    ("encoding", "name", "converted"),
    [
        ("ISO-8859-1", "old.de", "old.utf8.de"),
        ("WINDOWS-1252", "two words.tsv", "'two words.utf8.tsv'"),
        ("UTF-16", "wide.de", "wide.utf8.de"),
    ],
)
def test_text_in_another_encoding_is_refused_with_a_command_that_converts_it(
    encoding: str, name: str, converted: str, tmp_path: Path, command: Command
) -> None:
    text = "Guten Tag.\tHello.\nSchöne Grüße.\tRegards.\n"
    if encoding == "WINDOWS-1252":
        text += "„So.“\tSo.\n"
    (tmp_path / name).write_bytes(text.encode(encoding))
    message = command("translate", "model", tmp_path / name).mistake()
    place, _, cure = message.partition("not UTF-8; ")
    assert place == f"{tmp_path / name} line {1 if encoding == 'UTF-16' else 2} byte " + (
        "1: " if encoding == "UTF-16" else "4: "
    )
    said, _, convert = cure.partition("convert it: ")
    assert said == f"if it is {encoding}, "
    subprocess.run(convert, shell=True, check=True)  # noqa: S602 - the command that users copy
    assert Path(converted.strip("'")).name in {path.name for path in tmp_path.iterdir()}
    result = command("translate", "model", tmp_path / converted.strip("'"), "--beam", "1")
    assert result.code == 0, result.err


def test_a_packed_text_in_another_encoding_is_unpacked_first(
    tmp_path: Path, command: Command
) -> None:
    path = tmp_path / "old.de.gz"
    path.write_bytes(gzip.compress("Grüße.\n".encode("latin-1")))
    message = command("translate", "model", path).mistake()
    plain = tmp_path / "old.de"
    assert (
        f"decompress it; if it is ISO-8859-1, convert it: iconv -f ISO-8859-1 -t UTF-8 {plain}"
        in (message)
    )


def test_a_pipe_in_another_encoding_goes_through_a_converter(command: Command) -> None:
    message = command("translate", "model", given="Grüße.\n".encode("latin-1")).mistake()
    assert message == (
        "standard input line 1 byte 3: not UTF-8; if it is ISO-8859-1, pipe it through: "
        "iconv -f ISO-8859-1 -t UTF-8"
    )
