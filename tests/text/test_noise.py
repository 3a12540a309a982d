"""Noise in words and texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.text.noise.draws import Draws
from transduce.text.noise.texts import mistyped_text, title_cased, unpunctuated, upper_cased
from transduce.text.noise.typos import NEIGHBOURS, mistyped, split_in_two
from transduce.text.noise.untranslatable import untranslatable
from transduce.text.noise.words import (
    MARK_STYLES,
    doubled_end,
    merged,
    other_marks,
    without_end,
    words_of,
)


@given(st.text(max_size=60))
def test_the_words_of_a_text_are_all_of_it(text: str) -> None:
    assert "".join(words_of(text)) == text


@given(st.text(max_size=20), st.integers(0, 2**64 - 1))
def test_any_word_can_be_mistyped_and_split(word: str, state: int) -> None:
    typed = mistyped(word, Draws(state))
    assert abs(len(typed) - len(word)) <= 1
    assert mistyped(word, Draws(state)) == typed
    assert split_in_two(word, Draws(state)).replace(" ", "") == word.replace(" ", "")


def test_typos_are_of_every_kind() -> None:
    found = {mistyped(" table", Draws(state)) for state in range(400)}
    assert {" tabel", " tble", " tabble", " tanle"} <= found
    assert len(found) > 40
    assert all(set(keys) <= set(NEIGHBOURS) - {key} for key, keys in NEIGHBOURS.items())
    assert "w" in NEIGHBOURS["q"]
    assert "a" in NEIGHBOURS["q"]
    assert "p" not in NEIGHBOURS["q"]


@pytest.mark.parametrize(
    ("word", "without", "doubled"),
    [
        (" end.", " end", " end.."),
        (" end?!", " end", " end?!?!"),
        (' "end."', ' "end"', ' "end.."'),
        ("。", "。", "。。"),
        (" end", " end", " end"),
        (" ...", "", " ......"),
    ],
)
def test_the_marks_at_the_end(word: str, without: str, doubled: str) -> None:
    assert (without_end(word), doubled_end(word)) == (without, doubled)


def test_texts_with_one_kind_of_noise() -> None:
    assert upper_cased("Straße 3.") == "STRASSE 3."
    assert title_cased("the 2nd don't-care  book") == "The 2Nd Don't-care  Book"
    assert unpunctuated("Is it? Yes.") == "Is it? Yes"
    assert unpunctuated("Pourquoi pas ?") == "Pourquoi pas"
    assert unpunctuated("A man is here .") == "A man is here"
    assert unpunctuated("?") == "?"
    assert merged(" two words") == " twowords"
    text = "A sentence of exactly ten words, to be typed badly."
    assert mistyped_text(text, 5) == mistyped_text(text, 5) != mistyped_text(text, 6)
    assert mistyped_text("", 5) == ""
    changed = zip(text.split(), mistyped_text(text, 5).split(), strict=True)
    assert sum(a != b for a, b in changed) == 1


def test_quotes_and_dashes_of_other_keyboards() -> None:
    german = next(style for style in MARK_STYLES if style.opening == "\u201e")
    assert other_marks(' "Word",', german) == " \u201eWord\u201c,"
    assert other_marks(" -", german) == " \u2013"
    assert other_marks(" well-known", german) == " well-known"
    plain = MARK_STYLES[0]
    assert other_marks(" \u00abdon\u2019t\u00bb", plain) == ' "don\'t"'


def test_untranslatable_strings_have_no_spaces_and_differ() -> None:
    strings = {untranslatable(Draws(state)) for state in range(300)}
    assert len(strings) > 200
    assert all(string and not any(map(str.isspace, string)) for string in strings)
