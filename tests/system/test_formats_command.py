"""Tables, JSON lines and translation memories, in every command that reads text."""

import csv
import json
import os
from pathlib import Path

import pytest

from tests.command import Command
from tests.translation.likely import random_model, saved
from transduce.grammar import generate
from transduce.models.model_files import WEIGHTS

PAIRS = list(generate(12, seed=7))
FIELDS = {
    "a.tsv": "src,tgt",
    "b.tsv": "2,3",
    "a.csv": "de text,en",
    "a.jsonl": "src,tgt",
    "b.jsonl": "de,en",
    "a.tmx": "de,en",
}
"""Files with both sides, and how their source and target are named."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same pairs in every format, and a model."""
    folder = tmp_path_factory.mktemp("formats")
    lines = {
        "a.src": [pair.src for pair in PAIRS],
        "a.tgt": [pair.tgt for pair in PAIRS],
        "a.tsv": [f"{pair.src}\t{pair.tgt}" for pair in PAIRS],
        "b.tsv": [f"{n}\t{pair.src}\t{pair.tgt}" for n, pair in enumerate(PAIRS)],
        "a.jsonl": [json.dumps({"src": pair.src, "tgt": pair.tgt}) for pair in PAIRS],
        "b.jsonl": [
            json.dumps({"id": 1, "translation": {"de": pair.src, "en": pair.tgt}}) for pair in PAIRS
        ],
        "a.tmx": [
            '<!DOCTYPE tmx SYSTEM "tmx14.dtd"><tmx version="1.4"><header/><body>',
            *(
                f'<tu><tuv xml:lang="en-GB"><seg>{pair.tgt}</seg></tuv>'
                f'<tuv xml:lang="de-DE"><seg>{pair.src}</seg></tuv></tu>'
                for pair in PAIRS
            ),
            "</body></tmx>",
        ],
    }
    for name, content in lines.items():
        (folder / name).write_text("".join(f"{line}\n" for line in content), encoding="utf-8")
    with (folder / "a.csv").open("w", encoding="utf-8", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["id", "en", "de text"])
        for number, pair in enumerate(PAIRS):
            rows.writerow([number, pair.tgt, pair.src.replace(" ", "\n", 1)])
    saved(folder / "model", random_model(seed=5, max_positions=64))
    return folder


@pytest.fixture(autouse=True)
def _in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


@pytest.mark.exhaustive(after=3)
@pytest.mark.parametrize("name", FIELDS)
def test_translate_reads_the_source_side(name: str, command: Command) -> None:
    plain = command("translate", "model", "a.src", "--beam", "1")
    found = command("translate", "model", name, "--fields", FIELDS[name], "--beam", "1")
    assert plain.out.count("\n") == len(PAIRS)
    assert (found.code, found.out) == (0, plain.out)


@pytest.mark.parametrize("name", FIELDS)
def test_score_reads_both_sides(name: str, command: Command) -> None:
    plain = command("score", "model", "--src", "a.src", "--tgt", "a.tgt")
    found = command("score", "model", "--src", name, "--fields", FIELDS[name])
    assert plain.out.count("\n") == len(PAIRS)
    assert found == plain


@pytest.mark.parametrize("name", FIELDS)
def test_check_reads_both_sides(name: str, command: Command) -> None:
    found = command("data", "check", name, "--fields", FIELDS[name])
    assert found.out == command("data", "check", "a.src", "a.tgt").out


def test_train_reads_every_format_for_every_purpose(tmp_path: Path, command: Command) -> None:
    settings = {"model.d_model": 16, "model.d_ff": 16, "model.h": 2, "model.n_layers": 1}
    budget = {"training.steps": 2, "model.vocab_size": 300, "run.device": "cpu"}
    budget |= {"model.max_positions": 40}
    result = command(
        "train",
        *("--src", "a.csv", "--src", "a.tmx", "--src", "b.jsonl", "--fields", "de,en"),
        *("--dev-src", "b.jsonl", "--held-out", "a.tmx", "--no-clean", "--out", tmp_path / "run"),
        *(f"--set={name}={value}" for name, value in (settings | budget).items()),
    )
    assert result.code == 2
    assert "transduce: a.csv line 1: no column 'de'; the first line has" in result.err
    (tmp_path / "c.csv").write_text("en,de\n" + "".join(f"x{n},y{n}\n" for n in range(9)))
    result = command(
        "train",
        *("--src", tmp_path / "c.csv", "--fields", "de,en", "--out", tmp_path / "run"),
        *("--dev-src", "b.jsonl", "--held-out", "a.tmx", "--no-clean"),
        *(f"--set={name}={value}" for name, value in (settings | budget).items()),
    )
    assert result.code == 0, result.err
    assert (tmp_path / "run" / "model.safetensors").exists()


SMALL = (
    *("--set=model.d_model=16", "--set=model.d_ff=16", "--set=model.h=2", "--set=model.n_layers=1"),
    *("--set=model.vocab_size=300", "--set=model.max_positions=99"),
    *("--set=training.steps=1", "--set=run.device=cpu"),
)


def _development_set(folder: Path) -> Path:
    path = folder / "dev.tsv"
    path.write_text("".join(f"x {n}\ty {n}\n" for n in range(4)), encoding="utf-8")
    return path


def test_train_takes_a_line_break_in_a_cell_for_a_space(tmp_path: Path, command: Command) -> None:
    dev = _development_set(tmp_path)
    for sign in ("\n", " "):
        folder = tmp_path / str(ord(sign))
        folder.mkdir()
        with (folder / "c.csv").open("w", encoding="utf-8", newline="") as stream:
            csv.writer(stream).writerows(
                [text.replace(" ", sign) for text in pair] for pair in PAIRS
            )
        result = command(
            *("train", "--src", "c.csv", "--no-clean", "--out", "run"),
            *("--dev-src", dev, *SMALL),
            folder=folder,
        )
        assert result.code == 0, result.err
    one, other = (
        [(tmp_path / name / "run" / file).read_bytes() for file in ("tokenizer.json", WEIGHTS)]
        for name in ("10", "32")
    )
    assert one == other


def test_train_does_not_guess_which_column_a_name_is_of(tmp_path: Path, command: Command) -> None:
    result = command(
        *("train", "--src", "a.tsv", "--fields", "en,de", "--no-clean", "--out", tmp_path / "run"),
        *SMALL,
    )
    assert result.code == 2
    assert "a.tsv has two columns and no header, so none is named 'en' or 'de'" in result.err
    mixed = command(
        *("train", "--src", "a.tsv", "--src", "b.jsonl", "--fields", "de,en"),
        *(
            "--dev-src",
            _development_set(tmp_path),
            "--no-clean",
            "--out",
            tmp_path / "mixed",
            *SMALL,
        ),
    )
    assert mixed.code == 0, mixed.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("translate", "model", "b.tsv"), "choose the source's by number, such as --fields 1"),
        (("translate", "model", "b.tsv"), "b.tsv line 1: 3 columns ('0', "),
        (("translate", "model", "b.jsonl"), "no text in field 'src'; the fields are ['id', 'tra"),
        (("translate", "model", "b.jsonl"), "name the source's with --fields"),
        (("translate", "model", "a.tmx"), "choose the source's, such as --fields en-GB"),
        (("translate", "model", "a.csv"), "if this is a header, choose one of these names; if it"),
        (("translate", "model", "a.csv", "--fields", "fr"), "choose the source's among these"),
        (("evaluate", "model", "--src", "b.tsv"), "3 columns instead of two"),
        (("translate", "model", "a.src", "--fields", "de"), "--fields de is for files with sev"),
        (
            ("train", "--src", "a.src", "--tgt", "a.tgt", "--fields", "en,de", "--out", "run"),
            "--fields en,de is for files with several",
        ),
        (
            ("score", "model", "--src", "a.src", "--tgt", "a.tgt", "--fields", "2,1"),
            "--fields 2,1 is for files with several",
        ),
        (("data", "check", "a.src", "a.tgt", "--fields", "2,1"), "or leave it out"),
        (
            ("evaluate", "model", "--src", "a.src", "--ref", "a.tgt", "--fields", "2,1"),
            "--fields 2,1 is for files with several",
        ),
        (("translate", "model", "a.tsv", "--fields", "1,2,3"), "give two names"),
        (
            ("translate", "model", "a.tsv", "--fields", "en,de"),
            "a.tsv has two columns and no heade",
        ),
        (
            ("score", "model", "--src", "a.tsv", "--fields", "en,de"),
            "none is named 'en' or 'de': c",
        ),
        (("data", "check", "a.tsv", "--fields", "en,de"), "by number, with --fields 1,2 or 2,1"),
        (
            ("evaluate", "model", "--src", "a.tsv", "--fields", "en,de"),
            "none is named 'en': choose",
        ),
        (("score", "model", "--src", "b.jsonl"), "b.jsonl line 1: no text in field 'src'"),
        (("data", "check", "a.tmx"), "a.tmx: nothing in the language 'src'; it has en-GB, de-DE"),
        (("train", "--src", "-", "--out", "run"), "standard input (-) can be read only once"),
        (("data", "check", "-", "a.tgt"), "standard input (-) can be read only once"),
        (("translate", "model", "-", "-"), "standard input (-) can be read only once"),
        (("score", "model", "--src", "-", "--tgt", "-"), "standard input (-) can be read only"),
    ],
)
def test_a_mistake_is_one_line(arguments: tuple[str, ...], message: str, command: Command) -> None:
    assert message in command(*arguments).mistake()


# Standard input


def test_translate_reads_standard_input_among_files(folder: Path, command: Command) -> None:
    given = (folder / "a.src").read_bytes()
    alone = command("translate", "model", "-", "--beam", "1", given=given)
    assert alone.out == command("translate", "model", "a.src", "--beam", "1").out
    both = command("translate", "model", "-", "a.tsv", "--beam", "1", given=given)
    assert both.out == alone.out * 2
    assert "standard input line 1: " in both.err


@pytest.mark.parametrize("option", ["--src", "--tgt"])
def test_score_reads_standard_input(option: str, folder: Path, command: Command) -> None:
    files = {"--src": "a.src", "--tgt": "a.tgt"}
    plain = command("score", "model", *(word for pair in files.items() for word in pair))
    assert plain.out.count("\n") == len(PAIRS)
    given = (folder / files[option]).read_bytes()
    files[option] = "-"
    found = command(
        "score", "model", *(word for pair in files.items() for word in pair), given=given
    )
    assert found == plain


def test_score_reads_a_pipe(folder: Path, command: Command) -> None:
    """As `<(…)` of a shell gives one: it can be read only once, but score reads twice."""
    end, other = os.pipe()
    os.write(other, (folder / "a.tgt").read_bytes())
    os.close(other)
    found = command("score", "model", "--src", "a.src", "--tgt", f"/dev/fd/{end}")
    os.close(end)
    assert found == command("score", "model", "--src", "a.src", "--tgt", "a.tgt")
    assert found.code == 0
