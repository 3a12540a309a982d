"""Tables, JSON lines and translation memories give the two sides that were asked for."""

import bz2
import csv
import gzip
import io
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from transduce.data.corpus import Pair, count_pairs, format_of, read_pairs, read_side, source_of
from transduce.data.formats import lines as file_lines
from transduce.data.formats import xml_units
from transduce.errors import InputError

cells = st.text(st.characters(exclude_characters="\r\n\t", exclude_categories=["Cs", "Cc"]))
quoted_cells = st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"]))
xml_texts = st.text(
    st.characters(
        exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff", include_characters="\n"
    )
)
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.compress,
}


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def pairs_of(path: Path, fields: str = "src,tgt") -> list[Pair]:
    source = source_of(path, fields=fields)
    found = list(read_pairs(source))
    assert count_pairs(source) == len(found)
    for place, side in enumerate(("src", "tgt")):
        lines = [pair[place] for pair in found]
        assert list(read_side(path, side, fields=fields)) == lines  # type: ignore[arg-type]
        assert not any("\n" in line or "\r" in line for line in lines)
    return found


def refused(path: Path, fields: str = "src,tgt") -> str:
    with pytest.raises(InputError) as raised:
        list(read_pairs(source_of(path, fields=fields)))
    message = str(raised.value)
    assert "\n" not in message
    assert str(path) in message
    return message


def tmx_of(*units: dict[str, str], head: str = "") -> str:
    body = "".join(
        "<tu>"
        + "".join(f'<tuv xml:lang="{lang}"><seg>{text}</seg></tuv>' for lang, text in unit.items())
        + "</tu>"
        for unit in units
    )
    return (
        f'<?xml version="1.0" encoding="utf-8"?>{head}<tmx version="1.4"><header srclang="en"/>'
        f"<body>{body}</body></tmx>"
    )


# Tables


@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
@pytest.mark.parametrize(
    ("rows", "fields", "expected"),
    [
        (["one|eins", "two|zwei"], "src,tgt", [("one", "eins"), ("two", "zwei")]),
        (["src|tgt", "one|eins"], "src,tgt", [("one", "eins")]),
        (["tgt|id|src", "eins|1|one"], "src,tgt", [("one", "eins")]),
        (["en|de", "one|eins"], "de,en", [("eins", "one")]),
        (["EN|De", "one|eins"], "en,de", [("one", "eins")]),
        (["id|en|de", "1|one|eins"], "en,de", [("one", "eins")]),
        (["1|one|eins", "2|two|zwei"], "3,2", [("eins", "one"), ("zwei", "two")]),
        (["it|es", "I|ich"], "1,2", [("it", "es"), ("I", "ich")]),
        (["1|2", "3|4"], "1,2", [("1", "2"), ("3", "4")]),
        (["|", "x|"], "src,tgt", [("", ""), ("x", "")]),
    ],
)
def test_columns_are_found_by_number_or_by_name(
    name: str, rows: list[str], fields: str, expected: list[tuple[str, str]], tmp_path: Path
) -> None:
    sign = "\t" if name == "a.tsv" else ","
    path = written(tmp_path, name, "".join(f"{row.replace('|', sign)}\n" for row in rows))
    assert pairs_of(path, fields) == expected


@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
@pytest.mark.parametrize(
    ("first", "fields", "suggested"),
    [
        ("id|en|de|domain", "2,3", "en,de"),
        ("id|source text|target text", "3,2", "target text,source text"),
        ("1|one|eins|news", "2,3", None),
        ("id|en|de|domain", "en,de", None),
        ("en|one|de", "1,2", None),
    ],
)
def test_a_header_that_numbers_make_text_is_told(
    name: str,
    first: str,
    fields: str,
    suggested: str | None,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    sign = "\t" if name == "a.tsv" else ","
    rows = [first, "1|one|eins|news"]
    path = written(tmp_path, name, "".join(f"{row.replace('|', sign)}\n" for row in rows))
    source_of(path, fields=fields)
    if suggested is None:
        assert not caplog.messages
    else:
        [message] = caplog.messages
        assert message.startswith(f"{path} line 1 looks like a header (")
        assert message.endswith(f"; if it is a header, use --fields {suggested}")


@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
@pytest.mark.parametrize(
    ("rows", "fields", "message"),
    [
        (["en|de", "one|eins"], "src,tgt", "line 1 looks like a header ('en', 'de'): name the"),
        (["en_US|target text", "a|b"], "src,tgt", "as in --fields en_US,target text, or use"),
        (["english|german", "a|b"], "englisch,german", "(did you mean english?); the first line"),
        (["id|en|de", "1|a|b"], "src,tgt", "line 1: 3 columns instead of two: 'id', 'en', 'de'"),
        (["id|en|de", "1|a|b"], "en,fr", "line 1: no column 'fr'"),
        (["1|a|b", "2|a"], "2,3", "line 2: 2 columns instead of 3 as in the first line"),
        (["1|a|b"], "2,4", "line 1: no column 4; there are 3"),
        (["just text"], "src,tgt", "line 1: 1 column instead of two"),
        (["en|de"], "en,de", "has a header ('en', 'de') but no other line"),
    ],
)
def test_a_table_that_does_not_fit_is_explained(
    name: str, rows: list[str], fields: str, message: str, tmp_path: Path
) -> None:
    sign = "\t" if name == "a.tsv" else ","
    path = written(tmp_path, name, "".join(f"{row.replace('|', sign)}\n" for row in rows))
    assert message in refused(path, fields)


def test_names_of_other_files_leave_two_columns_without_a_header(tmp_path: Path) -> None:
    path = written(tmp_path, "a.tsv", "I sleep.\tIch schlafe.\n")
    named = {"b.jsonl": "{}\n", "b.tmx": "", "b.tsv": "de\ten\n", "c.tsv": "1\t2\t3\n"}
    for name, text in named.items():
        other = written(tmp_path, name, text)
        source = source_of(path, fields="translation.de,en", among=[path, other])
        assert list(read_pairs(source)) == [("I sleep.", "Ich schlafe.")]
    others = [path, written(tmp_path, "d.tsv", "a\tb\n"), written(tmp_path, "d.txt", "a\n")]
    for fields, names in {"de,en": "'de' or 'en'", "1,en": "'1' or 'en'"}.items():
        with pytest.raises(InputError) as raised:
            source_of(path, fields=fields, among=others)
        assert str(raised.value) == (
            f"{path} has two columns and no header, so none is named {names}: "
            "choose them by number, with --fields 1,2 or 2,1"
        )
    assert pairs_of(path, "2,1") == [("Ich schlafe.", "I sleep.")]
    assert "no column" in refused(written(tmp_path, "a.csv", "I sleep.,Ich schlafe.\n"), "en,de")


@given(rows=st.lists(st.tuples(quoted_cells, quoted_cells, quoted_cells), min_size=1))
def test_csv_comes_back_whatever_is_quoted(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]]
) -> None:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(("de", "note", "en"))
    writer.writerows(rows)
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    path.write_bytes(text.getvalue().encode())
    on_one_line = [[cell.replace("\n", " ") for cell in row] for row in rows]
    assert pairs_of(path, "en,de") == [(en, de) for de, _, en in on_one_line]


@given(rows=st.lists(st.tuples(cells, cells, cells), min_size=1))
def test_tsv_comes_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]]
) -> None:
    path = tmp_path_factory.mktemp("tsv") / "a.tsv"
    text = "".join("\t".join(row) + "\n" for row in rows)
    path.write_bytes(("\ufeff" + text).encode())  # or a mark of the first cell would be dropped
    assert pairs_of(path, "3,1") == [(third, first) for first, _, third in rows]


def test_a_quote_that_is_not_closed_is_named_by_the_line_it_opens(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", 'a,b\n"two\nlines",c\n\nd,"e\nf\ng\n')
    assert "line 5: not CSV" in refused(path)
    assert "line 2: not CSV" in refused(written(tmp_path, "b.csv", 'a,b\n"c"d,e\n'))


def test_an_endless_quote_does_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transduce.data.formats.tables.MAX_LINE_BYTES", 1000)
    path = written(tmp_path, "a.csv", 'a,"b' + "x\n" * 2000 + '"\n')
    assert "line 1: not CSV: field larger" in refused(path)


def test_one_column_is_enough_to_translate(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", '"Hello, you",\nYes,\n')
    assert list(read_side(path)) == ["Hello, you", "Yes"]
    only = written(tmp_path, "b.tsv", "one\ntwo\n")
    assert list(read_side(only)) == list(read_side(only, "tgt")) == ["one", "two"]
    named = written(tmp_path, "c.csv", "id,text\n1,one\n")
    assert list(read_side(named, fields="text")) == ["one"]


# JSON lines


@pytest.mark.parametrize(
    ("entry", "fields"),
    [
        ({"src": "a", "tgt": "b"}, "src,tgt"),
        ({"translation": {"en": "a", "de": "b"}}, "en,de"),
        ({"translation": {"en": "a", "de": "b"}}, "translation.en, translation.de"),
        ({"x": {"y": {"en": "a"}}, "de": "b"}, "x.y.en,de"),
        ({"x.en": "a", "x": {"de": "b"}}, "x.en,x.de"),
        ({"en": "a", "de": "b", "translation": {"en": "c", "de": "d"}}, "en,de"),
    ],
)
@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "a.json"])
def test_fields_may_be_nested(
    entry: dict[str, object], fields: str, name: str, tmp_path: Path
) -> None:
    path = written(tmp_path, name, json.dumps(entry) + "\n" + json.dumps(entry))
    assert pairs_of(path, fields) == [("a", "b")] * 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"translation": {"en": "a", "de": "b"}}', "['translation.en', 'translation.de']; name"),
        ('{"source": "a", "target": "b"}', "no text in field 'src' (did you mean source?)"),
        ('[{"src": "a", "tgt": "b"}]', "not an object with fields: '[{"),
    ],
)
def test_other_fields_are_listed(line: str, message: str, tmp_path: Path) -> None:
    path = written(tmp_path, "a.jsonl", line)
    assert f"{path} line 1: " in refused(path)
    assert message in refused(path)


# Translation memories


@given(
    units=st.lists(
        st.fixed_dictionaries({}, optional=dict.fromkeys(("en", "de-AT", "fr"), xml_texts)),
        max_size=8,
    ),
    block=st.integers(1, 200),
)
def test_units_with_both_languages_come_back(
    tmp_path_factory: pytest.TempPathFactory, units: list[dict[str, str]], block: int
) -> None:
    units.append({"de-AT": "z", "en": "a"})
    path = tmp_path_factory.mktemp("tmx") / "a.tmx"
    text = tmx_of(*({lang: escape(one) for lang, one in unit.items()} for unit in units))
    path.write_bytes(text.encode())
    both = [unit for unit in units if {"en", "de-AT"} <= unit.keys()]
    expected = [tuple(one[lang].replace("\n", " ") for lang in ("en", "de-AT")) for one in both]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(xml_units, "BYTES_AT_ONCE", block)
        assert pairs_of(path, "EN,de") == expected


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_the_encoding_is_that_of_the_declaration(encoding: str, tmp_path: Path) -> None:
    text = tmx_of({"en": "sister", "de": "Schwäche"}).replace("utf-8", encoding)
    (tmp_path / "a.tmx").write_bytes(text.encode(encoding))
    assert pairs_of(tmp_path / "a.tmx", "en,de") == [("sister", "Schwäche")]


def test_codes_are_no_text_and_languages_have_regions(tmp_path: Path) -> None:
    head = '<!DOCTYPE tmx SYSTEM "tmx14.dtd">'
    seg = 'Press <bpt i="1">&lt;b></bpt><hi>now</hi><ept i="1">&lt;/b></ept><ph><sub>x</sub></ph>.'
    units = [{"EN_us": seg, "de": "Jetzt&nbsp;dr&#252;cken."}, {"en-GB": "b", "en": "a", "de": "c"}]
    path = written(tmp_path, "a.tmx", tmx_of(*units, head=head))
    assert pairs_of(path, "en,de") == [("Press now.", "Jetzt\u00a0drücken."), ("a", "c")]
    assert pairs_of(path, "en-gb,de") == [("b", "c")]


BOMB = "".join(
    f'<!ENTITY b{n} "{f"&b{n - 1};" * 10}">' if n else '<!ENTITY b0 "ha">' for n in range(12)
)


@pytest.mark.parametrize(
    ("text", "fields", "message"),
    [
        (tmx_of({"en": "a", "de": "b"}), "src,tgt", "language 'src'; it has en, de: choose two"),
        (tmx_of({"en-US": "a", "de": "b"}), "en,fr", "'fr'; it has en-US, de"),
        (tmx_of({"en": "a"}, {"de": "b"}), "en,de", "no unit has all languages"),
        (tmx_of(), "en,de", "no translation unit"),
        (tmx_of({"en": "a", "de": "b"})[:-9], "en,de", "line 1: not XML: "),
        ("plain text", "en,de", "line 1: not XML: syntax error"),
        (tmx_of({"en": "&odd;"}, head='<!DOCTYPE tmx SYSTEM "x">'), "en,de", "entity 'odd' is not"),
        (
            tmx_of({"en": "&b11;"}, head=f"<!DOCTYPE tmx [{BOMB}]>"),
            "en,de",
            "line 1: it defines the entity 'b0', which is refused for safety",
        ),
        (
            tmx_of({"en": "&f;"}, head='<!DOCTYPE tmx [<!ENTITY f SYSTEM "/etc/passwd">]>'),
            "en,de",
            "it defines the entity 'f'",
        ),
    ],
)
def test_a_memory_that_cannot_be_read_is_explained(
    text: str, fields: str, message: str, tmp_path: Path
) -> None:
    assert message in refused(written(tmp_path, "a.tmx", text), fields)


def test_an_endless_segment_or_tag_does_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xml_units, "MAX_LINE_BYTES", 1000)
    monkeypatch.setattr(xml_units, "BYTES_AT_ONCE", 100)
    path = written(tmp_path, "a.tmx", tmx_of({"en": "x" * 5000, "de": "y"}))
    assert "a segment of over 1,000 characters" in refused(path, "en,de")
    path = written(tmp_path, "b.tmx", f'<tmx x="{"y" * 5000}"></tmx>')
    assert "a tag of over 1,000 bytes" in refused(path, "en,de")


# Files


@pytest.mark.parametrize("suffix", list(PACKERS))
def test_every_format_may_be_compressed(suffix: str, tmp_path: Path) -> None:
    texts = {
        "tsv": "en\tde\na\tb\n",
        "csv": "en,de\na,b\n",
        "jsonl": '{"en": "a", "de": "b"}\n',
        "tmx": tmx_of({"en": "a", "de": "b"}),
    }
    for name, text in texts.items():
        path = tmp_path / f"x.{name.upper()}{suffix}"
        path.write_bytes(PACKERS[suffix](text.encode()))
        assert format_of(path) == name
        assert pairs_of(path, "en,de") == [("a", "b")]


def test_sides_of_two_files_may_differ_in_format(tmp_path: Path) -> None:
    src = written(tmp_path, "a.csv", 'en,x\n"one\ntwo",1\nthree,2\n')
    tgt = written(tmp_path, "b.de", "eins zwei\ndrei\n")
    source = source_of(src, tgt, fields="en")
    assert list(read_pairs(source)) == [("one two", "eins zwei"), ("three", "drei")]
    assert count_pairs(source) == 2
    with pytest.raises(InputError, match=r"has 2 lines but .* has 1"):
        count_pairs(source_of(written(tmp_path, "c.tsv", "x\ty\n"), tgt))


@given(block=st.integers(1, 40))
def test_blocks_of_any_size_are_the_same_table(
    tmp_path_factory: pytest.TempPathFactory, block: int
) -> None:
    path = tmp_path_factory.mktemp("blocks") / "a.csv"
    path.write_bytes('"ä ""b""",c\r\n"d\r\ne",f\r\n'.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_lines, "BLOCK_BYTES", block)
        assert list(read_pairs(source_of(path))) == [('ä "b"', "c"), ("d e", "f")]
