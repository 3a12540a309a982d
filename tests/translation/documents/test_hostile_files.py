"""Hostile and broken files are refused in one line, and take little memory."""

import io
import tracemalloc
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.translation.documents.samples import FILES, archive, docx, members, translated
from transduce.errors import InputError
from transduce.translation.documents import archives, segments
from transduce.translation.documents.registry import FILE_FORMATS, parse_file

MIB = 1 << 20
PARAGRAPH = "<w:p><w:r><w:t>text</w:t></w:r></w:p>"


def refusal(content: bytes, name: str) -> str:
    with pytest.raises(InputError) as fault:
        translated(content, name, str.upper)
    said = str(fault.value)
    assert name in said
    assert "\n" not in said
    assert len(said) < 400
    return said


def with_info(**attributes: int) -> bytes:
    """Make a document with one more member, of which something is unusual."""
    written = io.BytesIO(docx(PARAGRAPH))
    with zipfile.ZipFile(written, "a") as out:
        info = zipfile.ZipInfo("more.bin")
        for name, value in attributes.items():
            setattr(info, name, value)
        out.writestr(info, b"target")
    return written.getvalue()


def bomb() -> bytes:
    return docx(PARAGRAPH, more={"word/media/a.png": bytes(20 * MIB)})


def declares_less() -> bytes:
    """Make a document whose text unpacks to more than its header says."""
    content = bytearray(docx(PARAGRAPH * 1_000))
    with zipfile.ZipFile(io.BytesIO(content)) as opened:
        size = opened.getinfo("word/document.xml").file_size
    return bytes(content).replace(size.to_bytes(4, "little"), (size // 2).to_bytes(4, "little"))


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "C:/a", "a\\..\\b", "a//b"])
def test_names_that_lead_out_of_an_archive(name: str) -> None:
    assert "leads out" in refusal(docx(PARAGRAPH, more={name: b""}), "a.docx")


def test_links_and_encrypted_members_and_other_methods() -> None:
    assert "is a link" in refusal(with_info(external_attr=0o120777 << 16), "a.docx")
    assert "compressed by" in refusal(with_info(compress_type=zipfile.ZIP_LZMA), "a.docx")
    encrypted = bytearray(with_info())
    flags = encrypted.rfind(b"PK\x01\x02") + 8
    encrypted[flags] |= 1
    assert "encrypted" in refusal(bytes(encrypted), "a.docx")


def test_macros() -> None:
    assert "macro" in refusal(docx(PARAGRAPH, more={"word/vbaProject.bin": b"x"}), "a.docx")
    assert "macro" in refusal(archive({"Basic/Standard/a.xml": b"", "content.xml": ""}), "a.odt")
    assert "save it as .docx" in refusal(FILES["a.docx"], "a.docm")
    types = members(FILES["a.docx"])["[Content_Types].xml"]
    disguised = {
        **members(FILES["a.docx"]),
        "[Content_Types].xml": types.replace(
            b"vnd.openxmlformats-officedocument.wordprocessingml.document.main",
            b"vnd.ms-word.document.macroEnabled.main",
        ),
    }
    assert "macros" in refusal(archive(dict(disguised)), "a.docx")


def test_bombs_are_refused_before_they_are_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    content = bomb()
    tracemalloc.start()
    try:
        assert "times its size" in refusal(content, "a.docx")
        assert tracemalloc.get_traced_memory()[1] < 5 * MIB
    finally:
        tracemalloc.stop()
    assert "ZIP" in refusal(declares_less(), "a.docx")
    monkeypatch.setattr(archives, "MAX_UNPACKED_BYTES", MIB)
    assert "unpacked has" in refusal(content, "a.docx")


def test_an_archive_inside_an_archive_is_copied_and_never_opened() -> None:
    inner = bomb()
    content = docx(PARAGRAPH, more={"word/embeddings/inner.docx": inner})
    after = members(translated(content, "a.docx", str.upper))
    assert after["word/embeddings/inner.docx"] == inner
    assert b"TEXT" in after["word/document.xml"]


@pytest.mark.parametrize("name", ["a.xlf", "a.tmx", "a.docx", "a.odt", "a.xhtml", "a.epub"])
@pytest.mark.parametrize(
    "text",
    [
        '<!DOCTYPE a [<!ENTITY b "c"><!ENTITY d "&b;&b;">]><a>&d;</a>',
        '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>',
        '<!DOCTYPE a [<!ENTITY % b SYSTEM "http://localhost/x"> %b;]><a/>',
    ],
)
def test_entities_of_a_file_are_refused(name: str, text: str) -> None:
    content = text.encode()
    if name == "a.docx":
        content = archive({**members(FILES[name]), "word/document.xml": content})
    elif name == "a.epub":
        content = archive({**members(FILES[name]), "OPS/chapter 1.xhtml": content})
    elif name == "a.odt":
        content = archive({"content.xml": content})
    assert "entity" in refusal(content, name)


@pytest.mark.parametrize("name", sorted(FILE_FORMATS))
def test_a_gigabyte_of_one_line_takes_no_memory(name: str) -> None:
    content = bytes(64 * MIB + 1)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="at most 67,108,864"):
            parse_file(content, f"a{name}", target="de")
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.txt", b"a" * 300_000, "200,000 characters in one line"),
        ("a.xlf", b"<a>" * 2_000, "nested more than 1,000"),
        ("a.json", b"[" * 2_000, "nested more than 1,000"),
        ("a.yaml", b"[" * 2_000, "nested more than 1,000"),
        ("a.json", b'{"a": }', "line 1: not JSON"),
        ("a.md", b"a" * (MIB + 1), "1,048,576"),
        ("a.po", b"msgid a", "line 1: not PO"),
        ("a.tmx", b"<tmx", "not XML"),
        ("a.txt", b"caf\xe9", "not UTF-8"),
        ("a.xlf", b'<?xml version="1.0" encoding="utf-7"?><a/>', "encoding 'utf-7'"),
    ],
)
def test_what_is_too_much_or_broken(name: str, content: bytes, said: str) -> None:
    with pytest.raises(InputError, match=said):
        translated(content, name, str.upper)


def test_too_many_texts_are_refused_while_they_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "MAX_SEGMENTS", 3)
    assert "more than 3 paragraphs" in refusal(b"a\nb\nc\nd\n", "a.txt")
    assert "more than 3 paragraphs" in refusal(docx(PARAGRAPH * 4), "a.docx")
    monkeypatch.setattr(segments, "MAX_PARTS", 2)
    assert "more than 2 pieces" in refusal(b"a<b>b</b>c", "a.html")


def test_aliases_are_not_followed() -> None:
    lines = ["a0: &a0 [text]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60))]
    after = translated("\n".join(lines).encode(), "a.yaml", str.upper)
    assert after == "\n".join(lines).replace("text", "TEXT").encode()


@given(st.data())
def test_damaged_files_are_translated_or_refused(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(FILES)))
    content = bytearray(FILES[name])
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(content) - 1))
        cut = data.draw(st.integers(0, 8))
        content[at : at + cut] = data.draw(st.binary(max_size=8))
    try:
        translated(bytes(content), name, str.upper)
    except InputError:
        return


@given(
    st.sampled_from(sorted(FILE_FORMATS)),
    st.text(alphabet="ab<>&;/!-[]{}()\"'`*_#:|\\\r\n\t é今\u2028", max_size=60),
    st.binary(max_size=20),
)
def test_any_bytes_are_translated_or_refused(name: str, text: str, more: bytes) -> None:
    for content in (text.encode(), more, text.encode() + more):
        try:
            after = translated(content, f"a{name}", str)
        except InputError:
            continue
        if name not in (".po", ".pot", ".xlf", ".xliff", ".tmx"):
            assert after == content


def test_an_archive_that_ends_early_is_refused() -> None:
    packed = FILES["a.docx"]
    assert "ZIP" in refusal(packed[: len(packed) // 2], "a.docx")
