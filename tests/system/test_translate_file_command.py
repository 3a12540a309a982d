"""`transduce translate-file`, with a small real model; and a real office suite opens the result."""

import shutil
import subprocess
from pathlib import Path

import pytest

import transduce
from tests.command import Command
from tests.translation.documents.samples import FILES, members
from tests.translation.likely import random_model, saved, sentences

SOFFICE = shutil.which("soffice")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("files") / "model", random_model(seed=5))


def test_a_text_gets_the_translations_of_its_lines(
    command: Command, model: Path, tmp_path: Path
) -> None:
    first, second = sentences(2)
    source, out = tmp_path / "a.txt", tmp_path / "a.de.txt"
    source.write_text(f"{first}\n\n{second}\n", encoding="utf-8")
    done = command("translate-file", model, source, "--out", out)
    assert (done.code, done.out) == (0, "")
    assert f"wrote {out}: 2 texts" in done.err
    expected = [one.text for one in transduce.load(model).translate([first, second])]
    assert [" ".join(line.split()) for line in out.read_text(encoding="utf-8").split("\n")] == [
        " ".join(line.split()) for line in (expected[0], "", expected[1], "")
    ]
    assert "exists already" in command("translate-file", model, source, "--out", out).mistake()


def test_python_does_the_same(model: Path, tmp_path: Path) -> None:
    source, out = tmp_path / "a.docx", tmp_path / "b.docx"
    source.write_bytes(FILES["a.docx"])
    done = transduce.translate_file(model, source, out)
    assert (done.path, done.segments, len(done.translations)) == (out, 5, 5)
    before, after = members(FILES["a.docx"]), members(out.read_bytes())
    assert [name for name in before if before[name] != after[name]] == ["word/document.xml"]
    with pytest.raises(transduce.InputError, match="is the file to translate"):
        transduce.translate_file(model, source, source)


def test_mistakes_are_one_line(command: Command, model: Path, tmp_path: Path) -> None:
    for name, said in [
        ("a.pdf", "files with the ending '.pdf' are not translated"),
        ("a.docm", "macros"),
        ("a.tmx", "--to de"),
        ("missing.txt", "cannot read"),
        ("a.odt", "ZIP"),
    ]:
        path = tmp_path / name
        if name != "missing.txt":
            path.write_bytes(b"<tmx/>")
        out = tmp_path / f"out-{name}"
        assert said in command("translate-file", model, path, "--out", out).mistake()
        assert not out.exists()


@pytest.mark.exhaustive
@pytest.mark.skipif(SOFFICE is None, reason="needs LibreOffice (soffice)")
@pytest.mark.parametrize("name", ["a.docx", "a.odt"])
def test_an_office_suite_opens_what_is_written(model: Path, tmp_path: Path, name: str) -> None:
    assert SOFFICE is not None
    source, out = tmp_path / name, tmp_path / f"out-{name}"
    source.write_bytes(FILES[name])
    done = transduce.translate_file(model, source, out)
    profile = f"-env:UserInstallation=file://{tmp_path}/profile"
    options = ["--headless", "--convert-to", "txt:Text (encoded):UTF8", "--outdir", str(tmp_path)]
    subprocess.run([SOFFICE, profile, *options, str(out)], check=True, timeout=120)
    text = " ".join(out.with_suffix(".txt").read_text(encoding="utf-8-sig").split())
    shown = [one.text for one in done.translations if one.source != "The note"]
    assert len(shown) >= 2
    for translation in shown:  # a mark of a note may be within a word
        letters = iter(text)
        assert all(letter in letters for letter in "".join(translation.split()))
