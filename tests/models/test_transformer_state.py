"""What a Transformer keeps during a search; `test_every_kind` has what holds for all models."""

import pytest
from hypothesis import given
from torch import Tensor

from tests.drawing import models, padded_ids
from transduce.errors import InputError
from transduce.models.transformer.model import Transformer


@given(model=models(), src=padded_ids(sentences=2))
def test_a_source_is_projected_once_a_sentence_not_once_a_hypothesis(
    model: Transformer, src: Tensor
) -> None:
    state = model.start(model.encode(src), hypotheses=4, max_steps=3)
    assert len(state.layers) == len(model.decoder)
    for layer in state.layers:
        assert layer.source_keys.tensor.size(0) == 2
        assert layer.source_values.tensor.size(0) == 2


@given(model=models(max_positions=16), src=padded_ids(sentences=1))
def test_more_steps_than_the_model_has_positions_are_refused(
    model: Transformer, src: Tensor
) -> None:
    with pytest.raises(InputError, match=r"17 tokens is longer than model.max_positions=16"):
        model.start(model.encode(src), hypotheses=1, max_steps=17)
