"""Alignments are between the words of the texts, however they are tokenized."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.analysis.shown import attention, bytes_as_letters
from transduce.errors import InputError
from transduce.models.attention import Attention
from transduce.translation.alignment.word_links import Link, align, pharaoh


def cross_weights(rows: list[list[float]]) -> NDArray[np.float32]:
    return np.array(rows, dtype=np.float32)[None, None]  # [1, 1, T, S]


def links(shown: list[Attention], **given: Any) -> list[Link]:
    return align(shown, **given).links


def aligned(shown: Attention, source: str, translation: str) -> str:
    return pharaoh(links([shown], source=source, translation=translation))


def test_a_word_is_aligned_with_the_word_that_it_attends_to_most() -> None:
    cross = cross_weights([[0.1, 0.8, 0.1], [0.7, 0.2, 0.1], [0.0, 0.0, 1.0]])
    assert aligned(attention(["a", "Ġb"], ["x", "Ġy"], cross=cross), "a b", "x y") == "1-0 0-1"


def test_weights_are_summed_over_source_tokens_and_averaged_over_target_tokens() -> None:
    summed = cross_weights([[0.3, 0.3, 0.4, 0.0], [0.0, 0.0, 0.0, 1.0]])
    shown = attention(["a", "a", "Ġb"], ["x"], cross=summed)
    assert aligned(shown, "aa b", "x") == "0-0"
    averaged = cross_weights([[0.6, 0.4, 0.0], [0.1, 0.9, 0.0], [0.0, 0.0, 1.0]])
    assert aligned(attention(["a", "Ġb"], ["x", "y"], cross=averaged), "a b", "xy") == "1-0"


def test_no_word_is_aligned_with_eos() -> None:
    cross = cross_weights([[0.1, 0.2, 0.7], [0.0, 0.0, 1.0]])
    assert aligned(attention(["a", "Ġb"], ["x"], cross=cross), "a b", "x") == "1-0"


def test_the_default_layer_is_the_one_whose_average_is_most_peaked() -> None:
    cross = np.zeros((2, 2, 2, 3), dtype=np.float32)
    cross[0, 0, :, 0] = cross[0, 1, :, 1] = 1  # sharp heads that contradict each other
    cross[1, :, :] = [0.2, 0.7, 0.1]
    shown = attention(["a", "Ġb"], ["x"], cross=cross)
    assert aligned(shown, "a b", "x") == "1-0"
    one_head = links([shown], source="a b", translation="x", layer=0, head=0)
    assert one_head == [(0, 0)]
    layer = links([shown], source="a b", translation="x", layer=1)
    assert layer == [(1, 0)]


def test_words_are_counted_through_all_parts_of_a_long_text() -> None:
    cross = cross_weights([[0.9, 0.0, 0.1], [0.1, 0.9, 0.0], [0.0, 0.0, 1.0]])
    parts = [attention(["a", "Ġb"], ["x", "Ġy"], cross=cross)] * 2
    found = links(parts, source="a b a b", translation="x y x y")
    assert pharaoh(found) == "0-0 1-1 2-2 3-3"


def test_a_word_that_was_split_between_parts_is_one_word() -> None:
    cross = cross_weights([[0.9, 0.0, 0.1], [0.1, 0.9, 0.0], [0.0, 0.0, 1.0]])
    parts = [attention(["a", "Ġb"], ["x", "Ġy"], cross=cross)] * 2
    found = links(parts, source="a ba b", translation="x yx y")
    assert pharaoh(found) == "0-0 1-1 2-2"


def test_letters_are_counted_after_punctuation_is_replaced() -> None:
    cross = cross_weights([[0.5, 0.4, 0.0, 0.1], [0.0, 0.0, 0.9, 0.1], [0.0, 0.0, 0.0, 1.0]])
    parts = [
        attention(["a", "...", "Ġb"], ["x", "Ġy"], cross=cross),
        attention(["a", "Ġb"], ["x", "Ġy"], cross=cross[:, :, :, 1:]),
    ]
    found = links(parts, source="a… ba b", translation="x yx y")
    assert pharaoh(found) == "0-0 1-1 2-2"


def test_numbers_stay_within_the_texts_even_if_the_words_do_not_match() -> None:
    shown = attention(["a", "Ġb", "Ġc"], ["x", "Ġy", "Ġz"])
    for src, tgt in links([shown], source="a", translation="x yz"):
        assert src == 0
        assert tgt in (0, 1)


def test_pre_segmented_text_is_aligned_by_its_words() -> None:
    cross = cross_weights([[0.1, 0.2, 0.7, 0.0], [0.9, 0.0, 0.1, 0.0], [0.0, 0.0, 0.0, 1.0]])
    shown = attention(["a@@", "b", "c"], ["< unk >", "x"], cross=cross, are_bytes=False)
    assert aligned(shown, "ab c", "q x") == "1-0 0-1"


def spelled(*tokens: str) -> list[str]:
    return [bytes_as_letters(token) for token in tokens]


def test_text_without_spaces_is_aligned_by_tokens_and_printed_with_spaces_between_them() -> None:
    cross = cross_weights([[0.1, 0.8, 0.1], [0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0, 0, 1]])
    shown = attention(["I", "Ġlaugh"], spelled("笑い", "ます", "。"), cross=cross)
    found = align([shown], source="I laugh", translation="笑います。")
    assert str(found) == "I laugh ||| 笑い ます 。 ||| 1-0 0-1 0-2"


def test_the_tokens_of_all_parts_of_an_unspaced_text_are_counted() -> None:
    cross = cross_weights([[0.9, 0.0, 0.1], [0.1, 0.9, 0.0], [0.0, 0.0, 1.0]])
    parts = [attention(spelled("猫", "。"), spelled("cat", "."), cross=cross)] * 2
    found = align(parts, source="猫。猫。", translation="cat. cat.")
    assert found.source == ("猫", "。", "猫", "。")
    assert found.translation == ("cat.", "cat.")
    assert found.links == [(0, 0), (2, 1)]


def test_empty_texts_have_no_links() -> None:
    assert links([], source="", translation="") == []
    shown = attention([], ["x"], cross=cross_weights([[1.0], [1.0]]))
    assert aligned(shown, "", "x") == ""


@pytest.mark.parametrize(
    ("layer", "head", "message"),
    [
        (None, 0, "head 1 of which layer"),
        (2, None, "layer 3: the model has layers 1 to 2"),
        (0, 3, "head 4: the model has heads 1 to 3"),
        (-1, None, "layer 0: the model has layers 1 to 2"),
    ],
)
def test_a_layer_or_head_that_does_not_exist_is_refused(
    layer: int | None, head: int | None, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        links([attention(["a"], ["b"])], source="a", translation="b", layer=layer, head=head)
