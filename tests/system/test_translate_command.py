"""`transduce translate`: what goes in, what comes out, and how it fails."""

import gzip
import json
import os
import pickle
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import transduce
from tests.command import Command, Result
from tests.translation.likely import random_model, saved, sentences
from transduce.models.folder import save_weights
from transduce.search.sample import Sampling
from transduce.translation.options import Options

TEXTS = list(sentences(4))
COMMAND = [sys.executable, "-m", "transduce", "translate"]


Translate = Callable[..., Result]


@pytest.fixture
def translate(command: Command) -> Translate:
    return partial(command, "translate")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("models") / "one", random_model(seed=5, max_positions=20))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.en"
    path.write_text("".join(f"{line}\n" for line in TEXTS), encoding="utf-8")
    return path


def expected(model: Path, texts: list[str] = TEXTS, **options: Any) -> list[str]:
    found = transduce.load(model).translate(texts, Options(**options))
    return [one.text.replace("\n", " ").replace("\r", " ") for one in found]


# What it prints


def test_a_pipe_gives_what_the_python_api_gives(model: Path) -> None:
    lines = f"\ufeff{TEXTS[0]}\r\n\n  \n{TEXTS[1]}"
    result = subprocess.run(
        [*COMMAND, str(model), "--beam", "2"],
        input=lines.encode(),
        capture_output=True,
        check=True,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},  # noqa: TID251 - the tests pass their own on
    )
    given = [TEXTS[0], "", "  ", TEXTS[1]]
    out = result.stdout.decode()
    assert out.split("\n") == [*expected(model, given, beam=2), ""]
    notes = result.stderr.decode().splitlines()
    assert [note.split(":")[0] for note in notes] == ["line 1", "line 4"]


def test_a_typed_line_is_answered_before_the_next(model: Path) -> None:
    keyboard, terminal = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, str(model), "--beam", "1", "--jsonl"],
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        os.close(terminal)
        assert process.stdout is not None
        for line in TEXTS[:2]:
            os.write(keyboard, f"{line}\n".encode())
            assert json.loads(process.stdout.readline())["source"] == line
        os.write(keyboard, b"\x04")  # Ctrl-D ends the input
        assert process.stdout.read() == b""
        assert process.wait() == 0
    os.close(keyboard)


def test_several_files_are_one_text(translate: Translate, model: Path, text: Path) -> None:
    packed = text.with_name("more.en.gz")
    packed.write_bytes(gzip.compress(TEXTS[0].encode()))
    result = translate(model, packed, text, "--beam", "1")
    assert result.out.split("\n") == [*expected(model, [TEXTS[0], *TEXTS], beam=1), ""]
    assert f"{packed} line 1: " in result.err


def test_a_file_appears_when_it_is_complete(translate: Translate, model: Path, text: Path) -> None:
    out = text.with_name("text.de")
    result = translate(model, text, "--beam", "1", "--out", out)
    assert (result.code, result.out) == (0, "")
    assert out.read_text(encoding="utf-8").split("\n") == [*expected(model, beam=1), ""]
    assert sorted(path.name for path in text.parent.iterdir()) == ["text.de", "text.en"]


def test_a_device_is_written_to_and_not_replaced(
    translate: Translate, model: Path, text: Path
) -> None:
    assert translate(model, text, "--beam", "1", "--out", "/dev/null").code == 0
    assert not Path("/dev/null").is_file()


def test_the_n_best_are_numbered_as_moses_does(
    translate: Translate, model: Path, text: Path
) -> None:
    result = translate(model, text, "--beam", "3", "--n-best", "2")
    rows = [line.split(" ||| ") for line in result.out.splitlines()]
    found = transduce.load(model).translate(TEXTS, Options(beam=3, n_best=2))
    assert rows == [
        [str(number), text, f"{score:.4f}"]
        for number, one in enumerate(found)
        for text, score in one.alternatives
    ]


def test_json_has_everything(translate: Translate, model: Path, text: Path) -> None:
    result = translate(model, text, "--beam", "2", "--n-best", "2", "--jsonl")
    objects = [json.loads(line) for line in result.out.splitlines()]
    found = transduce.load(model).translate(TEXTS, Options(beam=2, n_best=2))
    for entry, one in zip(objects, found, strict=True):
        assert list(entry) == ["source", "text", "score", "alternatives", "note"]
        assert (entry["source"], entry["text"], entry["note"]) == (one.source, one.text, one.note)
        assert entry["score"] == pytest.approx(one.score, rel=1e-5)
        assert [a["text"] for a in entry["alternatives"]] == [text for text, _ in one.alternatives]


def test_samples_follow_the_seed(translate: Translate, model: Path, text: Path) -> None:
    options = ("--sample", "--temperature", "0.8", "--top-k", "50", "--top-p", "0.9", "--seed", "3")
    sampling = Sampling(temperature=0.8, top_k=50, top_p=0.9, seed=3)
    result = translate(model, text, *options)
    assert result.out.split("\n") == [*expected(model, sampling=sampling), ""]
    assert translate(model, text, "--sample", "--seed", "4").out != result.out


def test_prefixes_line_by_line(translate: Translate, model: Path, text: Path) -> None:
    prefix = text.with_name("prefix")
    prefix.write_text("Sie\n\nDie Frau\n\n")
    result = translate(model, text, "--beam", "1", "--prefix", prefix)
    lines = result.out.split("\n")
    assert lines[0].startswith("Sie")
    assert lines[2].startswith("Die Frau")
    assert lines[1] == expected(model, beam=1)[1]


def test_a_prefix_that_ends_within_a_word_is_completed(
    translate: Translate, text: Path, tmp_path: Path
) -> None:
    """The model likes one word best, always; it is one token."""
    loaded = random_model(seed=5, max_positions=20)
    [favourite] = loaded.tokenizer.encode_targets([" because"])[0]
    with torch.no_grad():
        weights = dict(loaded.model.named_parameters())
        weights["decoder.0.add_norm_3.norm.weight"].zero_()
        weights["decoder.0.add_norm_3.norm.bias"].copy_(weights["embedding.weight"][favourite])
    model = saved(tmp_path / "model", loaded)
    prefix = text.with_name("prefix")
    prefix.write_text("Sie beca\nSie bec\n\nSie \n")
    result = translate(model, text, "--beam", "1", "--prefix", prefix)
    lines = result.out.splitlines()
    assert [line.split(" because")[0] for line in lines] == ["Sie", "Sie", "", "Sie"]
    result = translate(model, text, "--beam", "2", "--prefix-text", "Sie beca")
    assert all(line.startswith("Sie because") for line in result.out.splitlines())


def test_an_ensemble_of_one_model_is_the_model(
    translate: Translate, model: Path, text: Path
) -> None:
    result = translate(model, text, "--ensemble", model, "--beam", "1")
    assert result.out.split("\n") == [*expected(model, beam=1), ""]


def test_spaces_and_unknown_scripts_are_text(
    translate: Translate, model: Path, tmp_path: Path
) -> None:
    odd = tmp_path / "odd"
    odd.write_text(" \n\t\t\nꙮ ᚠᚢᚦ 🙂\u2028\x00\n", encoding="utf-8")
    result = translate(model, odd, "--beam", "1")
    assert result.code == 0
    assert result.out.startswith("\n\n")
    assert result.out.count("\n") == 3


def test_many_notes_are_counted_after_the_first_three(
    translate: Translate, model: Path, text: Path, tmp_path: Path
) -> None:
    many = tmp_path / "many.en"
    many.write_bytes(text.read_bytes() * 3)
    summary = "9 more notes like these"
    for options, end in (["--beam", "1"], "; --jsonl writes them all"), (["--jsonl"], ""):
        *notes, last = translate(model, many, *options).err.splitlines()
        assert [note.partition(":")[0] for note in notes] == ["line 1", "line 2", "line 3"]
        assert last == summary + end
    out = translate(model, many, "--beam", "1", "--out", tmp_path / "out").err.splitlines()
    assert out[3] == f"{summary}; --jsonl writes them all"


def test_a_file_that_is_written_is_named_at_the_end(
    translate: Translate, model: Path, text: Path, tmp_path: Path
) -> None:
    for arguments, given in ((text,), b""), ((), text.read_bytes()):
        out = tmp_path / f"out{len(arguments)}.de"
        last = translate(model, *arguments, "--beam", "1", "--out", out, given=given).err
        assert re.fullmatch(rf"wrote {out}: 4 lines in [0-9:]+", last.splitlines()[-1])
    assert "wrote" not in translate(model, text, "--beam", "1").err


def test_text_in_a_script_that_the_model_does_not_know_is_noted_once(
    translate: Translate, model: Path
) -> None:
    lines = [TEXTS[0], "α, β", "Это другой алфавит.", "И это тоже."]
    found = translate(model, "--beam", "1", given="\n".join(lines).encode())
    noted = [line for line in found.err.splitlines() if "not trained on" in line]
    assert noted == [
        "line 2 is in Greek, which the model was not trained on: do not rely on translations of "
        "such text (said once)"
    ]
    mixed = translate(model, given=f"{TEXTS[0]} (α, β, Привет)".encode())
    assert "not trained on" not in mixed.err


def test_nothing_piped_in_is_nothing_out(translate: Translate, model: Path) -> None:
    assert translate(model, given=b"") == Result(0, "", "")


# How it fails


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"fine\n\x89PNG\r\n\x1a\n\x00\xff", "odd.en line 2 byte 1: not UTF-8"),
        (b"fine\n" + b"x" * 1_000_000, "line 2 has 1,000,000 characters"),
        (b"", "odd.en is empty"),
    ],
)
def test_what_is_no_text_leaves_no_output(
    translate: Translate, model: Path, tmp_path: Path, content: bytes, message: str
) -> None:
    odd, out = tmp_path / "odd.en", tmp_path / "out.de"
    odd.write_bytes(content)
    assert message in translate(model, odd, "--out", out).mistake()
    assert [path.name for path in tmp_path.iterdir()] == ["odd.en"]


def test_a_fault_late_in_a_pipe_leaves_no_file(
    translate: Translate, model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.de"
    lines = b"".join(b"\n" for _ in range(2_000)) + b"\xff\n"
    message = translate(model, "--out", out, given=lines).mistake()
    assert message.startswith("standard input line 2,001 byte 1: not UTF-8; if it is ISO-8859-1")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--beam", "0"), "a beam of 0"),
        (("--n-best", "5"), "the 5 best of a beam of 4"),
        (("--n-best", "0"), "the 0 best"),
        (("--alpha", "-1"), "alpha=-1.0"),
        (("--temperature", "0.5"), "--temperature is for sampling: add --sample"),
        (("--sample", "--temperature", "0"), "--temperature 0.0: use more than 0"),
        (("--sample", "--temperature", "nan"), "--temperature nan"),
        (("--sample", "--top-k", "0"), "--top-k 0"),
        (("--sample", "--top-p", "1.5"), "--top-p 1.5"),
        (("--sample", "--n-best", "2"), "gives one translation per line"),
        (("--device", "gpu"), "--device gpu: use auto, cpu"),
        (("--precision", "fp8"), "use one of float32, bf16, int8"),
        (("--prefix", "Meine Schw"), "cannot read Meine Schw: No such file or directory; if it is"),
        (("--prefix", "-", "-"), "standard input (-) can be read only once"),
        (("--prefix", "missing", "--prefix-text", "x"), "use one of them"),
        (("--out", "no/such/folder/out"), "cannot write no/such/folder/out"),
        (("missing.en",), "cannot read missing.en"),
        (("Guten Tag.",), "No such file or directory; if it is the text itself, pipe it in with"),
        (("--ensemble", "missing"), "missing does not exist: give a model folder"),
    ],
)
def test_a_mistake_is_one_line(
    translate: Translate, model: Path, text: Path, arguments: tuple[str, ...], message: str
) -> None:
    assert message in translate(model, text, *arguments).mistake()


def test_a_document_that_is_read_as_lines_is_named(
    translate: Translate, model: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    page.write_text("Cats sleep.\n")
    done = translate(model, page)
    assert done.code == 0, done.err
    said = (
        f"{page} is read as lines of plain text; 'transduce translate-file' translates it as HTML"
    )
    assert said in done.err.splitlines()


def test_a_model_given_as_text_is_refused_with_how_to_make_an_ensemble(
    translate: Translate, model: Path, text: Path
) -> None:
    message = translate(model, model, text).mistake()
    assert message.startswith(f"{model} is a folder")
    assert message.endswith(f"use --ensemble {model}")


def test_another_number_of_prefixes_is_refused(
    translate: Translate, model: Path, text: Path
) -> None:
    prefix = text.with_name("prefix")
    prefix.write_text("Sie\n")
    message = translate(model, text, "--prefix", prefix).mistake()
    assert "has 1 line but there are 4 to translate" in message


class Trap:
    """What a pickle would do: make a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


def test_a_model_that_cannot_be_trusted_is_refused(
    translate: Translate, text: Path, tmp_path: Path
) -> None:
    folder = saved(tmp_path / "model", random_model(seed=1))
    weights, trap, out = folder / "model.safetensors", tmp_path / "trap", tmp_path / "out"
    whole = weights.read_bytes()

    def refused(message: str) -> None:
        assert message in translate(folder, text, "--out", out).mistake()
        assert not out.exists()

    weights.write_bytes(pickle.dumps(Trap(trap)))
    refused("pickled weights are never loaded")
    assert not trap.exists()
    weights.write_bytes(whole[: len(whole) // 2])
    refused("cut short, damaged or not safetensors")
    weights.write_bytes(whole.replace(b'"format":"1"', b'"format":"7"'))
    refused("has format '7' but this version reads '1'")
    save_weights(weights, {}, metadata={})
    refused("does not fit the model in config.yaml")
    weights.unlink()
    refused("has no file model.safetensors")
    assert (
        "nowhere does not exist: give a model folder"
        in translate(tmp_path / "nowhere", text).mistake()
    )


# Terms and placeholders


@pytest.fixture(scope="module")
def long_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with room for terms."""
    return saved(tmp_path_factory.mktemp("models") / "long", random_model(seed=5, max_positions=90))


def test_terms_and_placeholders_of_the_source_are_in_the_output(
    translate: Translate, long_model: Path, tmp_path: Path
) -> None:
    source, terms, words = (tmp_path / name for name in ("a.en", "terms.tsv", "words.txt"))
    source.write_text("The dog sees {name} on X-12.\nA man.\n", encoding="utf-8")
    terms.write_text("# ours\ndog\tHund|Köter\nman\tMann\tcase\n", encoding="utf-8")
    words.write_text("# not these\nund\n", encoding="utf-8")
    result = translate(
        long_model, source, "--glossary", terms, "--forbid", words, "--keep-placeholders",
        "--keep", r"X-\d+",
    )  # fmt: skip
    first, second = result.out.splitlines()
    assert re.search(r"\b(Hund|Köter)\b", first)
    assert first.count("{name}") == first.count("X-12") == 1
    assert re.search(r"\bMann\b", second)
    assert not re.search(r"\bund\b", result.out)


@pytest.mark.parametrize(
    ("option", "content", "said"),
    [
        ("--glossary", b"a\tb\tc\td\n", "line 1 has 4 columns"),
        ("--glossary", b"a\xff\tb\n", "is not UTF-8"),
        ("--forbid", b"x" * 300, "300 characters"),
    ],
)
def test_a_wrong_file_of_words_is_one_line(
    translate: Translate,
    model: Path,
    text: Path,
    tmp_path: Path,
    option: str,
    content: bytes,
    said: str,
) -> None:
    path = tmp_path / "words"
    path.write_bytes(content)
    assert said in translate(model, text, option, path).mistake()


def test_a_pattern_that_is_not_supported_is_one_line(
    translate: Translate, model: Path, text: Path
) -> None:
    assert "the pattern '(a'" in translate(model, text, "--keep", "(a").mistake()
