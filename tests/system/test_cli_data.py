"""`transduce data` in a process of its own."""

import json
from pathlib import Path

import pytest

from tests.system.test_cli import run
from transduce.data.grammar import generate, split


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


def test_check_counts_and_shows_what_it_would_drop(corpus: tuple[Path, Path]) -> None:
    result = run("data", "check", *map(str, corpus))
    assert result.returncode == 0
    assert result.stderr == ""
    found = counts(result.stdout)
    assert (found["read"], found["kept"]) == (103, 100)
    assert {name for name, count in found.items() if count == 1} == {
        "dropped: empty",
        "dropped: duplicate",
        "dropped: wrong script",
    }
    assert (
        "wrong script, pair 103:\n  A sentence.\n  Предложение на другом языке.\n" in result.stdout
    )


def test_check_leaves_out_what_is_held_out(corpus: tuple[Path, Path], tmp_path: Path) -> None:
    held_out = tmp_path / "test.en"
    held_out.write_text(corpus[0].read_text(encoding="utf-8").splitlines()[0] + "\n")
    result = run("data", "check", *map(str, corpus), "--held-out", str(held_out))
    assert counts(result.stdout)["dropped: in the held-out text"] == 1


def test_check_reads_tsv_and_json_lines(tmp_path: Path) -> None:
    pairs = list(generate(20, seed=3))
    tsv, lines = tmp_path / "pairs.tsv", tmp_path / "pairs.jsonl"
    tsv.write_text("".join(f"{src}\t{tgt}\n" for src, tgt in pairs), encoding="utf-8")
    lines.write_text(
        "".join(json.dumps({"en": src, "de": tgt}) + "\n" for src, tgt in pairs), encoding="utf-8"
    )
    assert counts(run("data", "check", str(tsv)).stdout)["kept"] == 20
    assert counts(run("data", "check", str(lines), "--fields", "en,de").stdout)["kept"] == 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train.en", "short.de"), "short.de has 1 lines but train.en has 103"),
        (("train.en",), "train.en has no partner"),
        (("train.en", "none.de"), "cannot read none.de: No such file or directory"),
        (("train.en", "train.de", "--held-out", "none"), "cannot read none"),
        (("binary.en", "train.de"), "binary.en line 1 byte 3: not UTF-8"),
        (("pairs.jsonl", "--fields", "en"), "fields 'en': give two names"),
    ],
)
def test_a_fault_is_one_line_and_exit_code_2(
    arguments: tuple[str, ...], message: str, corpus: tuple[Path, Path]
) -> None:
    folder = corpus[0].parent
    (folder / "short.de").write_text("Kurz.\n")
    (folder / "binary.en").write_bytes(b"ab\xff\n")
    (folder / "pairs.jsonl").write_text("{}\n")
    result = run("data", "check", *arguments, folder=folder)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("transduce: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr


def test_control_codes_of_a_corpus_do_not_reach_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("\x1b[31mred" + "x" * 200 + "\tred\x07\n", encoding="utf-8")
    shown = run("data", "check", str(path)).stdout
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert max(len(line) for line in shown.splitlines()) <= 80


def test_data_alone_lists_its_commands() -> None:
    result = run("data")
    assert result.returncode == 0
    assert all(f"  {name} " in result.stdout for name in ("check", "list", "get"))


def test_demo_writes_the_built_in_corpus(tmp_path: Path) -> None:
    result = run("data", "demo", "--to", str(tmp_path / "text"), "--pairs", "50")
    assert result.returncode == 0, result.stderr
    corpus = split(train=50, dev=200, test=500)
    for part in ("train", "dev", "test"):
        sides = [
            (tmp_path / f"text/{part}.{side}").read_text(encoding="utf-8") for side in ("en", "de")
        ]
        pairs = list(zip(*(text.splitlines() for text in sides), strict=True))
        assert pairs == [tuple(pair) for pair in getattr(corpus, part)]


def test_demo_says_where_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = run("data", "demo", "--to", str(tmp_path / "file"))
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "cannot write in" in result.stderr
