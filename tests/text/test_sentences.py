"""Sentence ends are found where they are plain, and otherwise left alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.text.sentences import sentences


@pytest.mark.parametrize(
    "expected",
    [
        ["A man walks.", "A dog runs.", "Two women cook!"],
        ["Is it?", "Yes!", "Well…", "Fine."],
        ['He said "Go."', "Then he left."],
        ["Mr. Smith met Dr. No at 5 p.m. on St. Mark's square.", "He left."],
        ["Am 3. Mai kam J. K. Rowling bzw. ihr Bruder.", "Er blieb bis 2010.", "Dann ging er."],
        ["It costs 3.50 euros.", "5 men came."],
        ["the U.S. forces came, e.g. in may"],
        ["no end at all"],
    ],
)
def test_plain_ends_are_found_and_doubtful_ones_left_alone(expected: list[str]) -> None:
    assert sentences(" ".join(expected)) == expected


def test_scripts_without_spaces_end_sentences_too() -> None:
    assert sentences("これは本です。「はい！」それはペン。") == [
        "これは本です。",
        "「はい！」",
        "それはペン。",
    ]


@given(st.text(st.sampled_from('aB1.!?。 "') | st.characters(), max_size=40))
def test_nothing_is_lost_but_space(text: str) -> None:
    parts = sentences(text)
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert all(part == part.strip() != "" for part in parts)


@pytest.mark.parametrize("text", ["a" * 500_000, "!." * 250_000, "!" + '"' * 500_000])
def test_what_is_hardly_text_is_read_once_and_not_once_for_each_letter(text: str) -> None:
    assert sentences(text) == [text]  # it would take hours
