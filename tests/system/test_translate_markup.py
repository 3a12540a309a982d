"""`transduce translate --format`: documents in, documents out."""

from pathlib import Path

import pytest

import transduce
from tests.command import Command
from tests.translation.likely import random_model, saved

PAGE = "\ufeff<p>The <b>dog</b> eats.</p>\r\n<p>It &amp; <i>we</i></p>"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("models") / "one", random_model(seed=5, max_positions=20))


def test_a_document_comes_out_as_python_gives_it(
    command: Command, model: Path, tmp_path: Path
) -> None:
    page, out = tmp_path / "page.html", tmp_path / "seite.html"
    page.write_bytes(PAGE.encode())
    [expected] = transduce.load(model).translate([PAGE], format="html")
    assert command("translate", model, page, "--format", "html", "--out", out).code == 0
    assert out.read_bytes() == expected.text.encode()
    piped = command("translate", model, "--format", "xml", given=b"<a>x <b>y</b></a>")
    assert piped.code == 0
    assert piped.out.startswith("<a>")
    assert piped.out.endswith("</a>")
    assert "text 1: " in command("translate", model, page, "--format", "html").err


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"<a>", ["--format", "xml"], "page: line 1: <a> is never closed"),
        (b"x", ["--format", "pdf"], "--format pdf: use one of text, html, xml"),
        (b"x", ["--format", "html", "--jsonl"], "--jsonl is for text"),
        (b"x", ["--format", "html", "--n-best", "2"], "--n-best is for text"),
        (b"\xff", ["--format", "html"], "page byte 1: not UTF-8"),
        (b'<?xml version="1.0" encoding="latin-1"?><a/>', ["--format", "xml"], "latin-1"),
    ],
)
def test_a_mistake_is_one_line(
    command: Command, tmp_path: Path, content: bytes, options: list[str], message: str
) -> None:
    (tmp_path / "page").write_bytes(content)
    found = command("translate", "no-model", "page", *options, folder=tmp_path).mistake()
    assert message in found


def test_one_document_at_a_time(command: Command, tmp_path: Path) -> None:
    for name in ("a.html", "b.html"):
        (tmp_path / name).write_text("x")
    found = command("translate", "m", "a.html", "b.html", "--format", "html", folder=tmp_path)
    assert "one document" in found.mistake()
