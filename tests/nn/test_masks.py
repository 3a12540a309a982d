import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import lengths_of, padded_ids
from transduce.nn.mixers.masks import causal_allowed, padding_allowed
from transduce.text.special_ids import PAD_ID


@given(ids=padded_ids())
def test_exactly_the_real_tokens_are_allowed(ids: torch.Tensor) -> None:
    allowed = padding_allowed(ids, PAD_ID)
    assert allowed.shape == (ids.size(0), 1, 1, ids.size(1))
    for row, length in enumerate(lengths_of(ids)):
        assert allowed[row, 0, 0].tolist() == [position < length for position in range(ids.size(1))]


@given(length=st.integers(1, 9))
def test_a_sentence_of_only_padding_may_attend_to_all_of_it(length: int) -> None:
    assert padding_allowed(torch.full((1, length), PAD_ID), PAD_ID).all()


@given(length=st.integers(1, 9))
def test_position_i_may_attend_to_positions_up_to_i(length: int) -> None:
    expected = [[j <= i for j in range(length)] for i in range(length)]
    assert causal_allowed(length).tolist() == expected
