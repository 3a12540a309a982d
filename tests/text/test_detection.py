"""Languages of texts."""

import importlib.util
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.command import Command
from transduce.errors import InputError
from transduce.text.detection import LanguageDetector

LINES = ["Wer weiß, ob das Wetter besser wird?", "Nobody knows about the weather.", "12"]


def test_each_line_gets_a_language(tmp_path: Path, command: Command) -> None:
    path = tmp_path / "text"
    path.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    result = command("detect", str(path), "--among", "en,de,pt-BR")
    assert (result.code, result.err) == (0, "")
    rows = [line.split("\t") for line in result.out.splitlines()]
    assert [row[2] for row in rows] == LINES
    assert [row[0] for row in rows[:2]] == ["de", "en"]
    assert float(rows[0][1]) > 0.9
    assert rows[2][1] == "0.000"
    assert command("detect", given=b"Je ne sais pas encore.\n").out.startswith("fr\t")
    assert command("detect", str(path), "--among", "en,,de").code == 2


def test_a_long_text_is_judged_by_its_beginning() -> None:
    detector = LanguageDetector()
    text = LINES[0] * 100 + LINES[1] * 10_000
    assert detector.detect(text, ["en", "de"])[0].code == "de"


def test_without_the_library_one_line_says_how_to_install_it() -> None:
    def found(name: str, *_: object) -> object:
        return None if name == "py3langid" else importlib.util.find_spec(name)

    with patch("transduce.text.detection.find_spec", found):
        assert LanguageDetector.if_installed() is None
        with pytest.raises(InputError, match=r"needs py3langid: pip install 'transduce\[detect\]'"):
            LanguageDetector()
