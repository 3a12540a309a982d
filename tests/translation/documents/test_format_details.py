"""Details of formats: what is read as text, what is kept, and how text is written again."""

import pytest

from tests.translation.documents.samples import docx, members, translated
from transduce.errors import InputError
from transduce.translation.documents import encodings
from transduce.translation.documents.edits import Edit, edited
from transduce.translation.documents.encodings import DecodedText
from transduce.translation.documents.formats import office
from transduce.translation.documents.inline_codes import wrap


def upper(source: str, name: str) -> str:
    return translated(source.encode(), name, str.upper).decode()


def test_long_runs_and_many_lines_take_linear_time() -> None:
    # Each took minutes when its time was squared.
    for run in (" ", "_", "`", "*"):
        upper(f"a{run * 150_000}b\n", "a.md")
    upper("1\n00:01 --> 00:02\n" + "a b c\n" * 1_000 + " \n" * 60_000, "a.srt")
    assert wrap("a b c", 100_000) == "a\nb\nc"
    assert wrap("ab " * 30_000, 15_000).count("\n") == 14_999


def test_cells_of_a_table_are_found_behind_the_cell_before() -> None:
    table = "| Name of the file | file |\n|---|---|\n| a | a |\n"
    assert upper(table, "a.md") == table.upper()


def test_edits_that_overlap_are_refused() -> None:
    text = DecodedText("abcd", "a.txt")
    assert edited(text, [Edit(1, 2, "x"), Edit(2, 2, "y"), Edit(2, 3, "z")]) == "axyzd"
    with pytest.raises(InputError, match=r"a\.txt character 2"):
        edited(text, [Edit(0, 2, "x"), Edit(1, 3, "y")])


@pytest.mark.parametrize(
    ("name", "source", "translation", "result"),
    [
        (
            "a.html",
            "Use <tt>foo</tt> or <tt>bar</tt> now",
            "Erst bar, nun foo",
            "Erst <tt>bar</tt>, nun <tt>foo</tt>",
        ),
        (
            "a.html",
            "Die Variable <tt>a</tt> ist da",
            "A variable a is here",
            "A variable <tt>a</tt> is here",
        ),
        ("a.html", "Use <tt>foo</tt> now", "foo jetzt", "<tt>foo</tt> jetzt"),
        ("a.md", "Use `foo` or `bar` now", "Jetzt bar oder foo", "Jetzt `bar` oder `foo`"),
    ],
)
def test_inline_code_is_found_where_the_translation_has_it(
    name: str, source: str, translation: str, result: str
) -> None:
    assert translated(source.encode(), name, lambda _: translation).decode() == result


def test_entities_that_only_a_dtd_defines_stay() -> None:
    unit = "<trans-unit><source>Hi &foo; there&nbsp;now</source>{}</trans-unit>"
    file = f'<!DOCTYPE xliff SYSTEM "x.dtd"><xliff>{unit}</xliff>'
    assert upper(file.format(""), "a.xlf") == (file.format("<target>HI &foo; THERE NOW</target>"))
    assert upper("<p>Hi &foo; &ampx; there</p>", "a.xhtml") == "<p>HI &foo; &ampx; THERE</p>"


def test_cues_without_blank_lines_between_them() -> None:
    cues = "1\r\n00:01 --> 00:02\r\nHello\r\n2\r\n00:03 --> 00:04\r\n00:05 --> 00:06\r\nagain\r\n"
    assert upper(cues, "a.srt") == cues.replace("Hello", "HELLO").replace("again", "AGAIN")


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ('<a href="/x?translate=no">a</a>', '<a href="/x?translate=no">A</a>'),
        ("<p translate=NO>a</p>a", "<p translate=NO>a</p>A"),
        ("<p class='b notranslate'>a</p>a", "<p class='b notranslate'>a</p>A"),
        ("<p class=notranslate>a<p>a", "<p class=notranslate>a<p>A"),
        ("<ul><li translate=no>a<li>a</ul>", "<ul><li translate=no>a<li>A</ul>"),
        ("<!-- a --!>a<br><!-->a", "<!-- a --!>A<br><!-->A"),
        ("<p title='>'>a", "<p title='>'>A"),
    ],
)
def test_tags_are_read_as_browsers_read_them(source: str, result: str) -> None:
    assert upper(source, "a.html") == result


def test_xhtml_is_read_as_xml() -> None:
    page = "<title/><script src='x'/><p>{}</p><![CDATA[ > b ]]>"
    assert upper(page.format("a"), "a.xhtml") == page.format("A")
    with pytest.raises(InputError, match=r"a\.xhtml line 2: a tag that is not well-formed"):
        upper("<p>\n<a href=x>b</a></p>", "a.xhtml")


def test_a_target_keeps_its_attributes() -> None:
    unit = '<xliff><trans-unit><source>a</source><target note="{}"'
    assert upper(unit + "/></trans-unit></xliff>", "a.xlf") == (
        unit + ">A</target></trans-unit></xliff>"
    )


def test_references_of_markdown_are_read_as_characters() -> None:
    found = upper("a&nbsp;b &mdash; c &#233; \\&amp; &amp;lt; &foo;\n", "a.md")
    assert found == "A B — C É \\&AMP; \\&LT; \\&FOO;\n"


def test_words_are_not_glued() -> None:
    assert upper("one<br>two<br/>three", "a.md") == "ONE<br>TWO<br/>THREE"
    body = "<w:p><w:r><w:t>A well</w:t><w:noBreakHyphen/><w:t>known dog</w:t></w:r></w:p>"
    after = members(translated(docx(body), "a.docx", lambda text: f"{text}!"))
    assert b"<w:r><w:t>A well-known dog!</w:t><w:t></w:t></w:r>" in after["word/document.xml"]
    assert members(translated(docx(body), "a.docx", str)) == members(docx(body))


def test_latin_1_of_html_is_that_of_browsers() -> None:
    page = b"<meta charset=%b>it\x92s \xe9"
    for declared in (b"iso-8859-1", b"us-ascii"):
        after = translated(page % declared, "a.html", str.upper)
        assert after == b"<meta charset=%b>IT\x92S \xc9" % declared
    assert (
        translated(b"<meta charset=latin1>a\x81b", "a.html", str) == b"<meta charset=latin1>a\x81b"
    )


def test_text_is_limited_as_it_is_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = docx(f"<w:p><w:r><w:t>\U0001f600{'a' * 4_000}</w:t></w:r></w:p>")
    monkeypatch.setattr(encodings, "MAX_DECODED_BYTES", 10_000)
    with pytest.raises(
        InputError, match=r"a\.docx: word/document\.xml in memory has .* at most 10,000"
    ):
        translated(wide, "a.docx", str)
    monkeypatch.undo()
    monkeypatch.setattr(office, "MAX_DECODED_BYTES", 10_000)
    with pytest.raises(InputError, match=r"a\.docx: its text in memory has .* at most 10,000"):
        translated(wide, "a.docx", str)
