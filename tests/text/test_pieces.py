"""Long texts are cut at sentence ends, nothing is lost, and every piece is short enough."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.text.pieces import Piece, cut, join


def words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def characters(texts: Sequence[str]) -> list[int]:
    return [len(text) for text in texts]


def cut_by_words(text: str, most: int) -> list[str]:
    return [piece.text for piece in cut(text, max_tokens=most, count_tokens=words)]


def cut_by_characters(text: str, most: int) -> list[str]:
    return [piece.text for piece in cut(text, max_tokens=most, count_tokens=characters)]


def test_a_short_text_is_one_piece() -> None:
    assert cut_by_words("One. Two! Three?", 3) == ["One. Two! Three?"]


def test_an_empty_text_has_no_pieces() -> None:
    assert cut_by_words(" \t", 3) == []


@pytest.mark.parametrize(
    ("text", "most", "pieces"),
    [
        ("It is late. We go home! Do you? Yes…", 5, ["It is late.", "We go home! Do you?", "Yes…"]),
        ('He said "No." She left; he did not.', 5, ['He said "No." She left;', "he did not."]),
        ("We go, they stay: so it is", 3, ["We go,", "they stay:", "so it is"]),
        ("one two three four five", 2, ["one two", "three four", "five"]),
        ("Version 3.11 is out. Good.", 4, ["Version 3.11 is out.", "Good."]),
    ],
)
def test_the_best_places_are_taken(text: str, most: int, pieces: list[str]) -> None:
    assert cut_by_words(text, most) == pieces


@pytest.mark.parametrize(
    ("text", "most", "pieces"),
    [
        ("今天很好。我们走吧！好吗？", 8, ["今天很好。", "我们走吧！好吗？"]),
        ("他说：「走吧。」我们走。", 9, ["他说：「走吧。」", "我们走。"]),
        ("abcdefgh", 4, ["abcd", "efgh"]),
    ],
)
def test_scripts_without_spaces_and_words_too_long(text: str, most: int, pieces: list[str]) -> None:
    assert cut_by_characters(text, most) == pieces


@given(
    text=st.text(alphabet=st.sampled_from("ab .,!。、 \t字가\u0301"), max_size=80),
    most=st.integers(1, 20),
)
def test_every_piece_fits_and_only_spaces_are_lost(text: str, most: int) -> None:
    pieces = cut(text, max_tokens=most, count_tokens=characters)
    assert all(0 < len(piece.text) <= most for piece in pieces)
    assert all(piece.text == piece.text.strip() for piece in pieces if not piece.is_glued)
    assert "".join("".join(piece.text for piece in pieces).split()) == "".join(text.split())


def test_a_character_of_more_tokens_than_fit_stays_whole() -> None:
    pieces = cut("字字", max_tokens=2, count_tokens=lambda texts: [3 * len(t) for t in texts])
    assert [piece.text for piece in pieces] == ["字", "字"]


def test_a_megabyte_without_a_space_is_cut() -> None:
    pieces = cut_by_characters("x" * 1_000_000, 250)
    assert "".join(pieces) == "x" * 1_000_000
    assert max(map(len, pieces)) <= 250


@pytest.mark.parametrize(
    ("translations", "joined"),
    [
        (["Eins.", "Zwei."], "Eins. Zwei."),
        (["今天很好。", "我们走吧！"], "今天很好。我们走吧！"),
        (["안녕.", "가자."], "안녕. 가자."),
        (["", "Zwei."], "Zwei."),
        (["Eins.", ""], "Eins."),
    ],
)
def test_pieces_are_joined_as_their_script_is_written(translations: list[str], joined: str) -> None:
    assert join([Piece("a"), Piece("b")], translations) == joined


def test_halves_of_a_word_are_joined_without_a_space() -> None:
    assert join([Piece("a"), Piece("b", is_glued=True)], ["x", "y"]) == "xy"
