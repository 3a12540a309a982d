"""`transduce data`: corpora checked, and the built-in one written."""

import gzip
import json
from pathlib import Path

import pytest

from tests.command import Command
from transduce.grammar import generate, split


@pytest.fixture
def corpus(tmp_path: Path) -> tuple[Path, Path]:
    """A hundred good pairs, then an empty one, a repeated one and one in another script."""
    pairs = [tuple(pair) for pair in generate(100, seed=3)]
    pairs += [("Nothing.", ""), pairs[7], ("A sentence.", "Предложение на другом языке.")]
    src, tgt = tmp_path / "train.en", tmp_path / "train.de"
    src.write_text("".join(f"{pair[0]}\n" for pair in pairs), encoding="utf-8")
    tgt.write_text("".join(f"{pair[1]}\n" for pair in pairs), encoding="utf-8")
    return src, tgt


def counts(output: str) -> dict[str, int]:
    rows = [line.rsplit(maxsplit=2) for line in output.splitlines() if line.rstrip().endswith("%")]
    return {name.strip(): int(count) for name, count, _ in rows}


def test_check_counts_and_shows_what_it_would_drop(
    corpus: tuple[Path, Path], command: Command
) -> None:
    result = command("data", "check", *corpus)
    assert (result.code, result.err) == (0, "")
    found = counts(result.out)
    assert (found["read"], found["kept"]) == (103, 100)
    assert {name for name, count in found.items() if count == 1} == {
        "dropped: empty",
        "dropped: duplicate",
        "dropped: wrong script",
    }
    assert "wrong script, pair 103:\n  A sentence.\n  Предложение на другом языке.\n" in result.out


def test_check_leaves_out_what_is_held_out(
    corpus: tuple[Path, Path], tmp_path: Path, command: Command
) -> None:
    held_out = tmp_path / "test.en"
    held_out.write_text(corpus[0].read_text(encoding="utf-8").splitlines()[0] + "\n")
    result = command("data", "check", *corpus, "--held-out", held_out)
    assert counts(result.out)["dropped: in the held-out text"] == 1


@pytest.mark.parametrize("packed", [False, True])
def test_check_holds_out_both_sides_of_a_corpus(
    corpus: tuple[Path, Path], tmp_path: Path, command: Command, packed: bool
) -> None:
    first = corpus[1].read_text(encoding="utf-8").splitlines()[0]
    line = json.dumps({"en": "Something else.", "de": first}).encode() + b"\n"
    held_out = tmp_path / ("test.jsonl.gz" if packed else "test.jsonl")
    held_out.write_bytes(gzip.compress(line) if packed else line)
    result = command("data", "check", *corpus, "--held-out", held_out, "--fields", "en,de")
    assert counts(result.out)["dropped: in the held-out text"] == 1


def test_check_reads_tsv_and_json_lines(tmp_path: Path, command: Command) -> None:
    pairs = list(generate(20, seed=3))
    tsv, lines = tmp_path / "pairs.tsv", tmp_path / "pairs.jsonl"
    tsv.write_text("".join(f"{src}\t{tgt}\n" for src, tgt in pairs), encoding="utf-8")
    lines.write_text(
        "".join(json.dumps({"en": src, "de": tgt}) + "\n" for src, tgt in pairs), encoding="utf-8"
    )
    assert counts(command("data", "check", tsv).out)["kept"] == 20
    assert counts(command("data", "check", lines, "--fields", "en,de").out)["kept"] == 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train.en", "short.de"), "short.de has 1 line but train.en has 103"),
        (("train.en",), "train.en has no target text"),
        (("train.en", "none.de"), "cannot read none.de: No such file or directory"),
        (("train.en", "train.de", "--held-out", "none"), "cannot read none"),
        (("binary.en", "train.de"), "binary.en line 1 byte 3: not UTF-8"),
        (("pairs.jsonl", "--fields", "en"), "fields 'en': give two names"),
    ],
)
def test_a_fault_is_one_line_and_exit_code_2(
    arguments: tuple[str, ...], message: str, corpus: tuple[Path, Path], command: Command
) -> None:
    folder = corpus[0].parent
    (folder / "short.de").write_text("Kurz.\n")
    (folder / "binary.en").write_bytes(b"ab\xff\n")
    (folder / "pairs.jsonl").write_text("{}\n")
    assert message in command("data", "check", *arguments, folder=folder).mistake()


def test_control_codes_of_a_corpus_do_not_reach_the_terminal(
    tmp_path: Path, command: Command
) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("\x1b[31mred" + "x" * 200 + "\tred\x07\n", encoding="utf-8")
    shown = command("data", "check", path).out
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert max(len(line) for line in shown.splitlines()) <= 80


def test_data_alone_lists_its_commands(command: Command) -> None:
    result = command("data")
    assert result.code == 0
    assert all(f"  {name} " in result.out for name in ("check", "list", "get"))


def test_demo_writes_the_built_in_corpus(tmp_path: Path, command: Command) -> None:
    result = command("data", "demo", "--to", tmp_path / "text", "--pairs", "50")
    assert result.code == 0, result.err
    corpus = split(train=50, dev=200, test=500)
    for part in ("train", "dev", "test"):
        sides = [
            (tmp_path / f"text/{part}.{side}").read_text(encoding="utf-8") for side in ("en", "de")
        ]
        pairs = list(zip(*(text.splitlines() for text in sides), strict=True))
        assert pairs == [tuple(pair) for pair in getattr(corpus, part)]


def test_demo_says_where_it_cannot_write(tmp_path: Path, command: Command) -> None:
    (tmp_path / "file").touch()
    message = command("data", "demo", "--to", tmp_path / "file").mistake()
    assert message == f"{tmp_path / 'file'} is a file: name a folder"
