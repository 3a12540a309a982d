"""Inline codes go with their words; whatever the alignment is, files stay valid and whole."""

import random
import re
from collections import Counter
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.translation.documents.samples import archive, docx, members, placed_by, translated
from transduce.text.markup.marked import Line, MarkedText, text_of
from transduce.translation.documents.inline_codes import (
    line_of_translation,
    lines_to_translate,
    place_translations,
    without_marks,
    wrap,
)
from transduce.translation.documents.registry import parse_file

SEEDS = st.integers(0, 2**32)
WORDS = ["one", "two", "three", "It's", "4,5", "犬", "end."]
OPEN_DOCUMENT = (
    '<o:d xmlns:o="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0">{}</o:d>'
)


def turned(line: Line) -> str:
    """Translate a line to its words from the last to the first, which are aligned so."""
    text = " ".join(text_of(line).split()[::-1])
    return placed_by(line, text, lambda weights: weights[::-1]) if line else text


def backwards(content: str, name: str) -> str:
    parsed = parse_file(content.encode(), name, target="de")
    lines = lines_to_translate(parsed.segments)
    found = parsed.written(place_translations(parsed.segments, [turned(one) for one in lines]))
    return found.decode()


@pytest.mark.parametrize(
    ("name", "source", "result"),
    [
        ("a.html", "<p>the <b>red</b> car</p>", "<p>car <b>red</b> the</p>"),
        ("a.html", "<p><b>red</b> <i>car</i></p>", "<p><i>car</i> <b>red</b></p>"),
        ("a.html", "<p><b>red</b> car</p>", "<p>car <b>red</b></p>"),
        ("a.html", "<p>a <b>b <i>c</i> d</b> e</p>", "<p>e <b>d <i>c</i> b</b> a</p>"),
        ("a.html", "<p> a <b>b <i>c d</i></b></p>", "<p> <b><i>d c</i> b</b> a</p>"),
        ("a.html", "<p>a<img> b <u>c</u></p>", "<p><u>c</u> b a<img></p>"),
        ("a.html", "use <code>f(x)</code> <b>now</b>", "<b>now</b> <code>f(x)</code> use"),
        ("a.html", "<b>x<br>one</b> two <i>three</i>", "<b>x<br>three two one</b><i></i>"),
        ("a.md", 'the **red** [car](x "y")\n', '[car](x "y") **red** the\n'),
        ("a.md", "*one* `code` - 1. two\n", "two 1. - `code` *one*\n"),
        ("a.md", "**one two* three\n", "**three two one*\n"),
        ("a.srt", "0 --> 1\n<i>a</i> <b>b</b> c\n", "0 --> 1\nc <b>b</b> <i>a</i>\n"),
    ],
)
def test_codes_follow_their_words(name: str, source: str, result: str) -> None:
    assert backwards(source, name) == result


def random_codes(draw: random.Random, depth: int = 0) -> str:
    """Draw words in inline codes, some of which stand between words or cut a word."""
    pieces = []
    for _ in range(draw.randint(1, 5)):
        words = draw.choice((" ", "")).join(draw.choices(WORDS, k=draw.randint(0, 3)))
        inner = random_codes(draw, depth + 1) if depth < 3 and draw.random() < 0.6 else words
        shapes = ["{}", "<a>{}</a>", '<b c="1">{}</b>', "<x/>{}", "<!-- c -->{}", " {} "]
        pieces.append(draw.choice([*shapes, "{} <code>f()</code>"]).format(inner))
    return "".join(pieces)


def random_runs(draw: random.Random, depth: int = 0) -> str:
    """Draw runs of a few styles, some in links, with breaks, fields and text boxes."""
    pieces = []
    for _ in range(draw.randint(1, 6)):
        text = draw.choice((" ", "")).join(draw.choices(WORDS, k=draw.randint(0, 3)))
        text = f'<w:t xml:space="preserve">{text}{draw.choice(("", " "))}</w:t>'
        style = draw.choice(("", "", "<w:rPr><w:b/></w:rPr>", "<w:rPr><w:i/></w:rPr>"))
        more = draw.choice(("", "", "", "<w:br/>", "<w:footnoteReference/>", text))
        if depth < 2 and draw.random() < 0.1:
            more = f"<w:pict><w:p>{random_runs(draw, depth + 1)}</w:p></w:pict>"
        shapes = ["<w:r>{}</w:r>"] * 4 + ["<w:link><w:r>{}</w:r></w:link>", "<w:x/><w:r>{}</w:r>"]
        field = '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r>{}</w:r>'
        shapes.append(f'{field}<w:r><w:fldChar w:fldCharType="end"/></w:r>')
        pieces.append(draw.choice(shapes).format(f"{style}{text}{more}"))
    return "".join(pieces)


def nonsense(line: Line, draw: random.Random) -> str:
    """Translate to any words, with any alignment."""
    words = draw.choices([*text_of(line).split(), *WORDS], k=draw.randint(1, 9))
    numbers = np.random.default_rng(draw.randrange(2**32))
    return placed_by(line, " ".join(words), lambda weights: numbers.random(weights.shape))


def letters(text: str) -> str:
    return "".join(text.split())


def random_file(draw: random.Random, name: str) -> tuple[bytes, str]:
    """Return a file and what of it the test reads: the XML of a member, or all of it."""
    if name == "a.docx":
        body = "".join(f"<w:p>{random_runs(draw)}</w:p>" for _ in range(2))
        letters_only = body.replace("4,5", "five")  # numbers in fields stay where they are
        return docx(letters_only), "word/document.xml"
    codes = [f"{random_codes(draw)} end" for _ in range(2)]
    if name == "a.odt":
        inner = "".join(f"<text:p>{one}</text:p>" for one in codes)
        return archive({"content.xml": OPEN_DOCUMENT.format(inner)}), "content.xml"
    if name == "a.html":
        return "".join(f"<p>{one}</p>" for one in codes).replace("<x/>", "<img>").encode(), ""
    units = "".join(f"<trans-unit><source>{one}</source></trans-unit>" for one in codes)
    return f"<xliff>{units}</xliff>".encode(), ""


def read(content: bytes, member: str) -> str:
    text = (members(content)[member] if member else content).decode()
    text = text[text.find("?>") + 2 if "?>" in text else 0 :]
    return re.sub(r"<source>.*?</source>", "", text).replace("<img>", "<img/>")


def tags(text: str) -> Counter[str]:
    return Counter(re.findall(r"<[^<>]*>", text))


@given(SEEDS, st.sampled_from(["a.odt", "a.html", "a.docx", "a.xlf"]))
def test_any_translation_and_alignment_keep_codes_and_text(seed: int, name: str) -> None:
    draw = random.Random(seed)  # noqa: S311 - a test, not a secret
    content, member = random_file(draw, name)
    parsed = parse_file(content, name)
    lines = lines_to_translate(parsed.segments)
    found = [nonsense(line, draw) for line in lines]
    after = read(parsed.written(place_translations(parsed.segments, found)), member)
    tree = ElementTree.fromstring(f"<all>{after}</all>")  # noqa: S314 - of this test
    own = iter([without_marks(*pair) for pair in zip(lines, found, strict=True)])
    texts = [next(own) if one.needs_translation else one.text for one in parsed.segments]
    written, expected = letters("".join(tree.itertext())), letters("".join(texts))
    if "pict" in after:  # a text box may have moved
        written, expected = ("".join(sorted(one)) for one in (written, expected))
    assert written == expected
    if name != "a.xlf":
        before = tags(read(content, member))
        assert not before - tags(after)
        new = {re.split(r"[ />]", tag.lstrip("</"))[0] for tag in tags(after) - before}
        assert new <= ({"w:r", "w:rPr", "w:b", "w:i", "w:t"} if name == "a.docx" else set())


def test_runs_follow_their_words() -> None:
    bold, plain = "<w:r><w:rPr><w:b/></w:rPr><w:t>{}</w:t></w:r>", "<w:r><w:t>{}</w:t></w:r>"
    body = f"<w:p>{bold.format('Red')}{plain.format(' cars')}<w:x/>{plain.format(' go')}</w:p>"
    after = _turned_docx(body)
    spaced = '<w:r><w:t xml:space="preserve">{}</w:t></w:r>'
    assert after == (
        f"<w:p>{spaced.format('go cars')}<w:x/>{spaced.format(' ')}{bold.format('Red')}"
        f"{plain.format('')}</w:p>"
    )


def _turned_docx(body: str) -> str:
    parsed = parse_file(docx(body), "a.docx")
    lines = lines_to_translate(parsed.segments)
    written = parsed.written(place_translations(parsed.segments, [turned(one) for one in lines]))
    [after] = re.findall(r"<w:body>(.*)</w:body>", members(written)["word/document.xml"].decode())
    return str(after)


@settings(max_examples=30)
@given(SEEDS)
def test_a_translation_can_be_translated_again(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - a test, not a secret
    content, _ = random_file(draw, "a.html")
    for line in lines_to_translate(parse_file(content, "a.html").segments):
        found = nonsense(line, draw)
        again = line_of_translation(line, found)
        assert text_of(again).split() == without_marks(line, found).split()
        assert marks(again) == marks(line)


def marks(line: Line) -> list[str]:
    inlines = line.inlines if isinstance(line, MarkedText) else ()
    return sorted(re.findall("[0-9]+", "".join(one.opening for one in inlines)))


def test_nested_texts_move_with_the_code_that_they_are_in() -> None:
    note = "<text:note><text:p>One <c>note</c></text:p></text:note>"
    body = f"<text:p>red{note} <b>car</b></text:p>"
    content = archive({"content.xml": OPEN_DOCUMENT.format(body)})
    parsed = parse_file(content, "a.odt")
    lines = [turned(line) for line in lines_to_translate(parsed.segments)]
    after = members(parsed.written(place_translations(parsed.segments, lines)))["content.xml"]
    moved = "<text:note><text:p><c>note</c> One</text:p></text:note>"
    assert f"<text:p><b>car</b> red{moved}</text:p>" in after.decode()


def test_codes_that_are_very_deep_or_many_are_placed_too() -> None:
    for source in ("<b>x " * 500, "<b>x</b> " * 500, "x <img> " * 500, "<b>x<br>" * 500):
        assert translated(source.encode(), "a.html", str) == source.encode()
        assert len(translated(source.encode(), "a.html", str.upper)) >= len(source) // 2


def test_lines_are_about_equal() -> None:
    assert wrap("one two three four", 2) == "one two\nthree four"
    assert wrap("one two three four", 9) == "one\ntwo\nthree\nfour"
    assert wrap("one", 2) == "one"
