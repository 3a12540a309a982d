"""Clear sentence ends are found, doubtful ones are not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.text.sentences import split_sentences


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
        ["He said no.", "It was a work of art.", "See no. 5 and art. 7 of the law."],
        ["Es kostet 5 Mio. Euro.", "Prof. Dr. Meier zahlt."],
        ["That (as in [2]).", "Right .", "Then it ended."],
        ["यह एक किताब है।", "वह घर गया।"],
        ["هل هذا كتاب؟", "نعم."],
    ],
)
def test_clear_ends_are_found_and_doubtful_ones_are_not(expected: list[str]) -> None:
    assert split_sentences(" ".join(expected)) == expected


def test_scripts_without_spaces_end_sentences_too() -> None:
    assert split_sentences("これは本です。「はい！」それはペン。") == [
        "これは本です。",
        "「はい！」",
        "それはペン。",
    ]
    assert split_sentences("「はい。」と彼は言った。本当！？」そう。") == [
        "「はい。」と彼は言った。",
        "本当！？」",
        "そう。",
    ]


@given(st.text(st.sampled_from('aB1.!?。 "') | st.characters(), max_size=40))
def test_only_spaces_are_lost(text: str) -> None:
    parts = split_sentences(text)
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert all(part == part.strip() != "" for part in parts)


@pytest.mark.parametrize(
    "text",
    ["a" * 500_000, "!." * 250_000, "!" + '"' * 500_000, "。" * 500_000 + "」" * 500_000 + "と"],
)
def test_odd_text_takes_linear_time(text: str) -> None:
    assert split_sentences(text) == [text]  # in quadratic time it would take hours
