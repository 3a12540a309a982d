"""Readable tokens and words, for every kind of vocabulary."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.shown import BOS, EOS, bytes_as_letters
from transduce.text.tokenizer import Kind, Tokenizer
from transduce.translation.alignment.words import words_of

TEXTS = ["Die Straße  ist\tmüde.", "„Öl“ für 5$ – 日本語 😀 שלום", "a b", "x\u00a0y"]


def pieces(*texts: str) -> list[str]:
    return [bytes_as_letters(text) for text in texts]


def test_tokens_are_decoded_and_grouped_between_spaces() -> None:
    found = words_of(
        [BOS, *pieces("Stra", "ße", " ist", " „", "mü", "de", "“"), EOS], are_bytes=True
    )
    assert found.tokens == ("‹start›", "Stra", "ße", "ist", "„", "mü", "de", "“", "‹end›")
    assert found.words == ("‹start›", "Straße", "ist", "„müde“", "‹end›")
    assert found.word_of == (0, 1, 1, 2, 3, 3, 3, 3, 4)
    assert found.ends == {0, 4}


def test_a_character_split_between_tokens_is_shown_as_bytes_and_whole_in_the_word() -> None:
    halves = [bytes_as_letters("😀")[:2], bytes_as_letters("😀")[2:]]
    found = words_of(halves, are_bytes=True)
    assert found.tokens == (r"\xf0\x9f", r"\x98\x80")
    assert found.words == ("😀",)


def test_a_token_of_spaces_belongs_to_the_next_word() -> None:
    found = words_of(pieces("a", "  ", "b", " ", "c"), are_bytes=True)
    assert found.tokens == ("a", "␣", "b", "␣", "c")
    assert found.word_of == (0, 1, 1, 2, 2)
    assert found.words == ("a", "b", "c")


def test_characters_that_xml_forbids_are_escaped() -> None:
    found = words_of(pieces("a\x00b", "\ufffe", "\x1b[0m"), are_bytes=True)
    assert found.tokens == (r"a\x00b", r"\ufffe", r"\x1b[0m")


def test_where_a_script_has_no_spaces_each_token_is_a_word() -> None:
    found = words_of(pieces("私", "たち", "は", "GPU", "を", " 使", "う", "。"), are_bytes=True)
    assert found.words == ("私", "たち", "は", "GPU", "を", "使", "う", "。")


def test_tokens_that_divide_a_character_are_one_word_and_marks_stay_with_their_letter() -> None:
    letters = bytes_as_letters("日本語は")
    cut = [letters[:2], letters[2:4], letters[4:9], letters[9:]]
    assert words_of(cut, are_bytes=True).words == ("日本語", "は")
    assert words_of(pieces("ก", "ิ", "น"), are_bytes=True).words == ("กิ", "น")


def test_pre_segmented_text_is_joined_at_its_marks() -> None:
    found = words_of(["Über@@", "weg", "Ġ", "< unk >", "end", EOS], are_bytes=False)
    assert found.tokens == ("Über", "weg", "Ġ", "‹unk›", "end", "‹end›")
    assert found.words == ("Überweg", "Ġ", "‹unk›", "end", "‹end›")
    assert found.ends == {4}


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece"])
@pytest.mark.parametrize("text", TEXTS)
def test_words_are_those_of_the_text(kind: Kind, text: str) -> None:
    tokenizer = Tokenizer.learn(TEXTS * 3, kind=kind, vocab_size=290)
    [ids] = tokenizer.encode_batch([text])
    found = words_of(tokenizer.tokens(ids), are_bytes=True)
    has_words = "\u00a0" not in text and "日" not in text  # the space may be in two pieces
    if has_words:
        assert list(found.words) == text.split()
    assert "".join("".join(found.words).split()) == "".join(text.split())


@given(st.lists(st.text(min_size=1, max_size=6), max_size=8))
def test_every_token_has_a_word_in_order(texts: list[str]) -> None:
    found = words_of([bytes_as_letters(text) for text in texts], are_bytes=True)
    assert len(found.tokens) == len(found.word_of) == len(texts)
    assert sorted(set(found.word_of)) == list(range(len(found.words)))
    assert list(found.word_of) == sorted(found.word_of)
    assert all(found.tokens)


def test_sums_and_means_are_over_the_tokens_of_words() -> None:
    found = words_of(pieces("a", "b", " c"), are_bytes=True)
    weights = np.array([[0.1, 0.2, 0.7], [0.3, 0.4, 0.3], [0.0, 0.0, 1.0]], dtype=np.float32)
    by_words = found.means() @ weights @ found.sums()
    np.testing.assert_allclose(by_words, [[0.5, 0.5], [0.0, 1.0]], atol=1e-6)


def test_pieces_of_sentencepiece_are_joined_to_words() -> None:
    words = words_of(["▁The", "▁h", "ou", "se", ".", "< eos >"], are_bytes=False)
    assert words.words == ("The", "house.", "‹end›")
    assert words.word_of == (0, 1, 1, 1, 1, 2)
