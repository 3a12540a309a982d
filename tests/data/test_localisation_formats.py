"""PO and XLIFF as training input: source and target from one file, streamed and bounded."""

import gzip
from pathlib import Path

import pytest

from tests.translation.documents.samples import PO, XLIFF
from transduce.data.corpus import count_records, read_pairs, read_side, source_of
from transduce.data.formats.xliff import read_units
from transduce.errors import InputError

MESSAGES = (
    PO
    + """
msgctxt "menu"
msgid "Quit\\tnow\\n"
"or later"
msgstr "Jetzt "
"beenden"
msgid "%d cat"
msgid_plural "%d cats"
msgstr[0] "%d Katze"
msgstr[1] "%d Katzen"
"""
)
UNITS = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0"><file id="f">
<unit id="1"><segment><source>A <pc id="1">dog</pc><ph id="2"/></source>
<target>Ein <pc id="1">Hund</pc></target></segment>
<segment><source>no target</source></segment></unit></file></xliff>"""


def written(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def test_messages_with_a_translation_are_pairs(tmp_path: Path) -> None:
    expected = [
        ("done", "fertig"),
        ("Quit\tnow or later", "Jetzt beenden"),
        ("%d cat", "%d Katze"),
        ("%d cats", "%d Katzen"),
    ]
    path = written(tmp_path / "a.po", MESSAGES)
    assert list(read_pairs(source_of(path))) == expected
    assert count_records(source_of(path)) == len(expected)
    assert list(read_side(path, "tgt")) == [target for _, target in expected]
    packed = tmp_path / "a.po.gz"
    packed.write_bytes(gzip.compress(MESSAGES.replace("\n", "\r\n").encode()))
    assert list(read_pairs(source_of(packed))) == expected


def test_units_with_a_target_are_pairs(tmp_path: Path) -> None:
    path = written(tmp_path / "a.xlf", XLIFF)
    assert list(read_pairs(source_of(path))) == [("Done", "Fertig")]
    path = written(tmp_path / "a.xliff", UNITS)
    assert list(read_pairs(source_of(path))) == [("A dog", "Ein Hund")]
    assert list(read_side(path, "src")) == ["A dog"]


def test_a_named_character_of_a_unit_is_read_though_its_dtd_is_not(tmp_path: Path) -> None:
    unit = "<trans-unit><source>a&nbsp;b</source><target>c</target></trans-unit>"
    path = written(tmp_path / "a.xlf", f'<!DOCTYPE xliff SYSTEM "x.dtd"><xliff>{unit}</xliff>')
    assert list(read_units(path)) == [["a\xa0b", "c"]]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.po", 'msgid "a"\nmsgstr ""\n', "no message has a translation"),
        ("a.po", "msgid a\n", "line 1: not a keyword"),
        ("a.po", '"a"\n', "line 1: not a keyword"),
        ("a.po", 'msgid "' + "a" * 17_000_000 + '"', "bytes"),
        ("a.po", 'msgid ""\n' + f'"{"a" * 100_000}"\n' * 200, "a message of over"),
        ("a.xlf", "<xliff/>", "no unit"),
        ("a.xlf", "<a>" * 1_001, "nested"),
        ("a.xlf", "<xliff>", "not XML"),
        ("a.xlf", '<!DOCTYPE a [<!ENTITY b "c">]><a/>', "entity 'b'"),
        ("a.xlf", "<a b='" + "c" * 17_000_000, "a tag of over"),
    ],
)
def test_what_cannot_be_read_is_one_line(tmp_path: Path, name: str, text: str, said: str) -> None:
    path = written(tmp_path / name, text)
    with pytest.raises(InputError, match=said) as fault:
        list(read_pairs(source_of(path)))
    assert str(path) in str(fault.value)
    assert "\n" not in str(fault.value)
