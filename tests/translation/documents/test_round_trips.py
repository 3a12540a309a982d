"""Files come back as they were but for their text; an identity changes nothing else at all."""

import json
import re
from collections.abc import Callable

import pytest
import yaml

from tests.translation.documents.samples import FILES, PO, TMX, XLIFF, members, translated

FILLED = ("a.po", "a.xlf", "a.tmx")
"""Files whose missing translations are added, so that an identity adds text too."""


def same(text: str) -> str:
    return text


def longer(text: str) -> str:
    return f"Ja: {text.upper()} – ½"


@pytest.mark.parametrize("name", sorted(set(FILES) - set(FILLED)))
def test_an_identity_changes_no_byte(name: str) -> None:
    assert translated(FILES[name], name, same) == FILES[name]


@pytest.mark.parametrize("name", ["a.docx", "a.odt", "a.pptx", "a.epub"])
def test_only_the_text_of_an_archive_changes(name: str) -> None:
    before, after = members(FILES[name]), members(translated(FILES[name], name, longer))
    assert list(before) == list(after)
    changed = [member for member in before if before[member] != after[member]]
    assert changed
    for member in changed:
        assert _tags(before[member]) == _tags(after[member])
    for kept in ("word/media/picture.png", "mimetype", "META-INF/manifest.xml", "OPS/book.opf"):
        assert kept not in changed


@pytest.mark.parametrize("name", ["a.html", "a.md", "a.vtt", "a.srt"])
def test_tags_times_and_code_stay(name: str) -> None:
    before, after = FILES[name], translated(FILES[name], name, longer)
    assert _tags(before) == _tags(after)
    for fixed in (rb".*-->.*", rb"`[^`]*`", rb"\]\([^\n]*\)", rb"(?m)^ {4}.*", rb"(?m)^[-|: ]+$"):
        assert re.findall(fixed, before) == re.findall(fixed, after)


def _tags(content: bytes) -> list[bytes]:
    return re.findall(rb"<[^<>]*>", content.replace(b' xml:space="preserve"', b""))


@pytest.mark.parametrize(("name", "read"), [("a.json", json.loads), ("a.yaml", yaml.safe_load)])
def test_strings_change_and_nothing_else(name: str, read: Callable[[bytes], object]) -> None:
    def shape(value: object) -> object:
        if isinstance(value, dict):
            return [(key, shape(one)) for key, one in value.items()]
        if isinstance(value, list):
            return [shape(one) for one in value]
        return value.count("\n") if isinstance(value, str) else value

    content = FILES[name].replace(b"!custom ", b"")
    before, after = read(content), read(translated(content, name, longer))
    assert shape(before) == shape(after)
    assert before != after


def test_open_messages_are_filled_and_others_stay() -> None:
    after = translated(PO.encode(), "a.po", str.upper).decode()
    assert 'msgid "Open the file"\nmsgstr "OPEN THE FILE"\n' in after
    assert '#, c-format\nmsgid ""\n"Save %d\\n"\n"\\"files\\""\n' in after
    assert 'msgstr ""\n"SAVE %D\\n"\n"\\"FILES\\""\n' in after
    assert 'msgstr[0] "ONE DOG"\nmsgstr[1] "%D DOGS"\n' in after
    assert 'msgid "done"\nmsgstr "fertig"\n' in after
    assert PO[: PO.index("#: main.c")] == after[: after.index("#: main.c")]
    assert PO[PO.index("#~") :] == after[after.index("#~") :]
    filled = translated(PO.encode(), "a.po", same).decode()
    assert translated(filled.encode(), "a.po", str.upper).decode() == filled


def test_missing_targets_are_added_with_their_codes() -> None:
    after = translated(XLIFF.encode(), "a.xlf", str.upper).decode()
    added = '<target>CLICK <g id="1">THE <x id="2"/>BUTTON</g> &amp; WAIT</target>'
    assert f"</source>\n    {added}\n  </trans-unit>" in after
    assert "<source>Empty</source><target>EMPTY</target>" in after
    assert "<target>OTHER</target>" in after
    assert '<target state="final">Fertig</target>' in after
    assert "<source>Never</source></trans-unit>" in after
    assert "<target>Alt</target>" in after
    assert re.sub(r"\s*<target>(?!Alt).*?</target>|<target/>|<target> </target>", "", XLIFF) == (
        re.sub(r"\s*<target>(?!Alt).*?</target>", "", after)
    )
    assert translated(after.encode(), "a.xlf", same) == after.encode()


def test_a_memory_gets_the_language_that_it_lacks() -> None:
    after = translated(TMX.encode(), "a.tmx", str.upper).decode()
    added = re.findall(r'<tuv xml:lang="de">.*?</tuv>', after)
    codes = '<bpt i="1">&lt;b></bpt>DOG<ept i="1">&lt;/b></ept>'
    assert added == [
        f'<tuv xml:lang="de"><seg>A {codes}</seg></tuv>',
        '<tuv xml:lang="de"><seg>Katze</seg></tuv>',
    ]
    assert after.replace(added[0], "") == TMX


def test_the_encoding_of_a_file_is_kept() -> None:
    for codec in ("utf-16", "utf-8-sig"):
        content = TMX.encode(codec)
        assert translated(content, "a.tmx", str.upper).decode(codec).count("DOG") == 1
    page = '<meta charset="iso-8859-1"><p>é</p>'.encode("latin-1")
    assert translated(page, "a.html", lambda _: "ü Ж") == (
        '<meta charset="iso-8859-1"><p>ü &#1046;</p>'.encode("latin-1")
    )
    windows = FILES["a.txt"].replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    assert translated(windows, "a.txt", str.upper).count(b"\r\n") == windows.count(b"\n")


def test_text_is_written_as_its_format_has_it() -> None:
    wild = "# <b> & \"quote\" 'it' {x} \\ *a* | [b](c) -->: \x07"
    for name in ("a.docx", "a.odt", "a.pptx", "a.epub", "a.html", "a.po", "a.json", "a.yaml"):
        once = translated(FILES[name], name, lambda _: wild)
        translated(once, name, same)  # it can be read again
    once = translated(b"first\n\nsecond [x](y)\n", "a.md", lambda _: "1. # a * b")
    assert once == b"1\\. # a \\* b\n\n1\\. # [a \\* b](y)\n"
    assert translated(b"| a |\n|---|\n| b |\n", "a.md", lambda _: "x | y") == (
        b"| x \\| y |\n|---|\n| x \\| y |\n"
    )
    assert yaml.safe_load(translated(b"a: b c\n", "a.yaml", lambda _: wild)) == {"a": wild[:-2]}
    assert translated(b"a: b c\n", "a.yaml", lambda _: "no") == b'a: "no"\n'
