"""Translations are divided among the parts of a segment without loss, and where they fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.translation.documents.segments import (
    Segment,
    SegmentPart,
    divide,
    place_translations,
    texts_to_translate,
    wrap,
)


def parts(*texts: str) -> list[SegmentPart]:
    """Make parts; one in backticks is kept, every other one is inside a code."""
    return [
        SegmentPart(text.strip("`"), text.startswith("`"), n % 2) for n, text in enumerate(texts)
    ]


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        (["one text"], "ein Text", ["ein Text"]),
        (["Hello ", "red", " world"], "Hallo rote Welt", ["Hallo ", "rote", " Welt"]),
        (
            ["Note", ": see ", "here", "."],
            "Hinweis: siehe hier.",
            ["Hinweis", ": siehe ", "hier", "."],
        ),
        (
            ["Ask ", "John Smith", " now"],
            "Jetzt frage John Smith bitte",
            ["Jetzt frage ", "John Smith", " bitte"],
        ),
        (["use ", "`foo()`", " now"], "nutze foo() jetzt", ["nutze ", "", " jetzt"]),
        (["use ", "`foo()`", " now"], "nutze es jetzt", ["nutze ", "", " es jetzt"]),
        (["a", " ", "b"], "x y", ["x", " ", "y"]),
        (["今日は", "良い天気"], "天気が良い", ["天気", "が良い"]),
        (["one ", "two ", "three"], "eins", ["", "eins", ""]),
    ],
)
def test_words_go_where_they_fit(source: list[str], translation: str, expected: list[str]) -> None:
    assert list(divide(parts(*source), translation)) == expected


@given(
    st.lists(st.text(alphabet="ab ,.今\n", max_size=8), min_size=1, max_size=8),
    st.text(alphabet="abc de,.今́", min_size=1, max_size=40),
)
def test_no_text_is_lost_or_doubled(texts: list[str], translation: str) -> None:
    segment = Segment(tuple(SegmentPart(text, depth=n % 3) for n, text in enumerate(texts)))
    if not segment.needs_translation:
        assert place_translations([segment], []) == [None]
        return
    assert texts_to_translate([segment]) == [segment.text]
    [placed] = place_translations([segment], [translation])
    found = segment.whole if placed is None else "".join(placed)
    assert "".join(found.split()) == "".join(translation.split())
    assert found.split() == translation.split()


@given(
    st.lists(st.tuples(st.text(alphabet="ab ", max_size=5), st.booleans()), max_size=8),
    st.text(alphabet="ab c", min_size=1, max_size=30),
)
def test_what_is_kept_costs_no_text(texts: list[tuple[str, bool]], translation: str) -> None:
    segment = Segment(tuple(SegmentPart(text, kept) for text, kept in [*texts, ("a", False)]))
    [placed] = place_translations([segment], [translation])
    if placed is None:
        return
    assert all(not text for text, part in zip(placed, segment.parts, strict=True) if _is_code(part))
    whole = "".join(
        part.text if part.is_kept else text
        for text, part in zip(placed, segment.parts, strict=True)
    )
    written = iter(whole)
    assert all(letter in written for letter in translation if letter != " ")  # in this order


def _is_code(part: SegmentPart) -> bool:
    return part.is_kept and bool(part.text.strip())


def test_lines_are_about_equal() -> None:
    assert wrap("one two three four", 2) == "one two\nthree four"
    assert wrap("one two three four", 9) == "one\ntwo\nthree\nfour"
    assert wrap("one", 2) == "one"
