"""Markup survives any translation: valid stays valid, each tag comes once, words stay words."""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.text.markup.random_documents import (
    broken_document,
    html_document,
    html_tags,
    is_valid,
    tags_of,
    words_of,
    xml_document,
)
from transduce.errors import InputError
from transduce.text.markup.aligned import AlignedPiece, AlignedWords, weights_by_place
from transduce.text.markup.document import MarkupDocument, read_markup
from transduce.text.markup.marked import MarkedText
from transduce.text.markup.placing import put_back
from transduce.text.markup.tokens import MarkupKind, html_tokens
from transduce.text.markup.words import word_spans

SENTENCES = ["A small dog sleeps.", "It is 3.5 km, e.g. to AT&T: if x < y!", "他喝茶。", "Día é"]
HOSTILE = ["<b>", "</p>", "&", "<!--", "]]>", "\x00", "\ufffe", "x", "Ctrl", "n", "犬", "e\u0301"]
SEEDS = st.integers(0, 2**32)


def drawing(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - a test, not a secret


def aligned(
    line: MarkedText, translation: str, weights: NDArray[np.floating[Any]] | None = None
) -> AlignedWords:
    cuts = {place for one in line.inlines for place in (one.start, one.end)}
    source, target = word_spans(line.text, cuts), word_spans(translation)
    chosen = weights_by_place(len(target), len(source)) if weights is None else weights
    return AlignedWords(source, target, [AlignedPiece(0, 0, chosen)])


def nonsense(line: MarkedText, draw: random.Random) -> tuple[str, str]:
    """Translate to any words, with any alignment."""
    words = draw.choices([*line.text.split(), *HOSTILE], k=draw.randint(0, 12))
    text = draw.choice((" ", "")).join(words)
    plain = aligned(line, text)
    size = (len(plain.target), len(plain.source))
    weights = np.random.default_rng(draw.randrange(2**32)).random(size)
    return text, put_back(line, text, aligned(line, text, weights))


def translated(document: MarkupDocument, draw: random.Random) -> str:
    return document.with_lines([nonsense(line, draw)[1] for line in document.lines])


def identical(document: MarkupDocument) -> str:
    return document.with_lines(
        [put_back(line, line.text, aligned(line, line.text)) for line in document.lines]
    )


@settings(max_examples=150)
@given(SEEDS)
def test_valid_html_stays_valid_whatever_the_translation_is(seed: int) -> None:
    draw = drawing(seed)
    source = html_document(draw, SENTENCES)
    result = translated(read_markup(source, "html"), draw)
    assert is_valid(source, "html")
    assert is_valid(result, "html"), result
    assert tags_of(result, "html") == tags_of(source, "html")


@settings(max_examples=150)
@given(SEEDS)
def test_broken_html_keeps_all_its_tags(seed: int) -> None:
    draw = drawing(seed)
    source = broken_document(draw, SENTENCES)
    result = translated(read_markup(source, "html"), draw)
    assert sorted(html_tags(result)) == sorted(html_tags(source))


@settings(max_examples=50)
@given(SEEDS)
def test_xml_stays_well_formed(seed: int) -> None:
    draw = drawing(seed)
    source = xml_document(draw, SENTENCES)
    result = translated(read_markup(source, "xml"), draw)
    assert is_valid(source, "xml")
    assert is_valid(result, "xml"), result
    assert tags_of(result, "xml") == tags_of(source, "xml")
    assert result.count("&own;") == source.count("&own;")


@settings(max_examples=100)
@given(SEEDS)
def test_markup_changes_no_word(seed: int) -> None:
    draw = drawing(seed)
    for line in read_markup(html_document(draw, SENTENCES), "html").lines:
        if any(one.is_kept for one in line.inlines) or "<s" in line.source:
            continue  # replaced words; scripts are text to the parser of the check
        text, result = nonsense(line, draw)
        assert words_of(result) == " ".join(line.reader.text(line.reader.written(text)).split())


@settings(max_examples=100)
@given(SEEDS)
def test_the_same_words_in_the_same_order_give_the_same_markup(seed: int) -> None:
    source = html_document(drawing(seed), SENTENCES)
    again = identical(read_markup(source, "html"))
    assert tags_of(again, "html") == tags_of(source, "html")
    assert html_tags(again) == html_tags(source)


@given(st.text(alphabet=list("<>/!-=\"' abp&;\n?"), max_size=40))
def test_tags_are_found_as_a_browser_finds_them(text: str) -> None:
    tokens = list(html_tokens(text))
    kinds = {MarkupKind.START: "start", MarkupKind.EMPTY: "start", MarkupKind.END: "end"}
    assert "".join(token.source for token in tokens) == text
    assert [(kinds[t.kind], t.name) for t in tokens if t.kind in kinds] == html_tags(text)


@pytest.mark.parametrize(
    ("source", "translation", "result"),
    [
        ("the <b>red</b> car", "car red the", "car <b>red</b> the"),
        ("<p>a <i>b <b>c</b></i> d</p>", "d c b a", "<p>d <i><b>c</b> b</i> a</p>"),
        ("<b>one</b>, <i>two</i>.", ". two , one", ". <i>two</i> , <b>one</b>"),
        ("press <kbd>Ctrl</kbd> now", "now Strg press", "now <kbd>Ctrl</kbd> press"),
        ("a<!-- x --> b <img> c", "c b a", "<img> c b a<!-- x -->"),
        ("b <img>c", "c b", "<img>c b"),
        ("a <i></i> <u></u> b", "b a", "<i></i> <u></u> b a"),
        ("AT&amp;T &lt;3 <b>x</b>", "x 3 < T&TA", "<b>x</b> 3 &lt; T&amp;TA"),
        ("<a href=1><a name=2></a>x</a> y", "y x", "y <a href=1><a name=2></a>x</a>"),
        (
            '<em translate="NO">A b</em> c <b>d</b>',
            "d c b A",
            '<b>d</b> c <em translate="NO">A b</em>',
        ),
    ],
)
def test_tags_follow_their_words(source: str, translation: str, result: str) -> None:
    document = read_markup(source, "html")
    [line] = document.lines
    found = aligned(line, translation)
    turned = put_back(line, translation, aligned(line, translation, found.pieces[0].weights[::-1]))
    assert document.with_lines([turned]) == result


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("<ul><li>One<li><a href=x>Two</a></ul>", ["One", "Two"]),
        ("<b>One<br>two</b> three", ["One", "two", "three"]),
        ("<pre>no</pre><p>Yes<code>no</code></p><textarea>no</textarea>", ["Yesno"]),
        ("<script>no</script><style>no</style><!-- no -->", []),
        ("<p translate=no>no<p>Yes <br translate=no>so</p>", ["Yes", "so"]),
        ("<div class='a notranslate'><p>no</p></div>1 | — | ok", ["1 | — | ok"]),
        ("<p> — </p>&nbsp; <p>&copy;&nbsp;2020&nbsp;</p>", ["© 2020"]),
        ("<title>A <b> B</title>", ["A <b> B"]),
        ("<p>Here <svg id=a/> and <svg><path/></svg> there", ["Here and there"]),
        ("<b>" * 40 + "x" + "</b> y" * 40, ["x", *["y"] * 40]),
        ("<p><code>" + "long " * 40 + "</code> is kept</p>", ["is kept"]),
    ],
)
def test_what_is_translated(source: str, texts: list[str]) -> None:
    document = read_markup(source, "html")
    assert [line.text for line in document.lines] == texts
    assert document.with_lines([line.source for line in document.lines]) == source


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("<d><p>One <b>two</b></p> <p><q>Three</q></p></d>", ["One two", "Three"]),
        ("<d>One <b><i>two</i> &own; &#x33;</b></d>", ["One two 3"]),
        ("<d><![CDATA[<no>]]><p><b its:translate='no'>no</b></p><p>Yes</p></d>", ["Yes"]),
    ],
)
def test_inline_elements_of_xml_are_those_beside_text(source: str, texts: list[str]) -> None:
    document = read_markup(source, "xml")
    assert [line.text for line in document.lines] == texts
    assert document.with_lines([line.source for line in document.lines]) == source


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("<a>\n</b>", "line 2: </b> closes no element"),
        ("<a>", "<a> is never closed"),
        ("<a>\n\nx < y</a>", "line 3"),
        ("<!DOCTYPE x [" + "<!--" * 1000, "line 1"),
    ],
)
def test_xml_that_is_not_well_formed_is_refused(source: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_markup(source, "xml")


@pytest.mark.parametrize(
    "text",
    [
        "<" * 200_000,
        "<b>" * 60_000,
        "</b>" * 50_000,
        "<b>x " * 9_000 + "</b>" * 9_000,
        "&" * 200_000,
        '<a href="' * 30_000,
        "<!--" * 50_000,
        "<script><!--<script>" * 10_000,
        "x <img> " * 9_000,
        "<code>x</code> " * 5_000 + "y",
    ],
    ids=range(10),
)
def test_hostile_documents_are_read_in_linear_time(text: str) -> None:
    document = read_markup(text, "html")
    assert document.with_lines([line.source for line in document.lines]) == text
