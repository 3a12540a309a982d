"""The best continuations are those that sorting everything would give."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import seeds
from transduce.decoding.candidates import CHUNK, best_continuations, top_of_rows
from transduce.text.special_ids import PAD_ID


@given(
    size=st.sampled_from([1, 7, CHUNK, 40 * CHUNK, 40 * CHUNK + 1, 41 * CHUNK - 1]),
    count=st.integers(1, 12),
    seed=seeds,
)
def test_the_top_of_rows_is_torchs_topk(size: int, count: int, seed: int) -> None:
    x = torch.randn(2, 3, size, generator=torch.Generator().manual_seed(seed))
    count = min(count, size)
    values, places = top_of_rows(x, count)
    expected = x.topk(count, dim=-1)
    assert torch.equal(values, expected.values)
    assert torch.equal(places, expected.indices)


@given(
    size=st.sampled_from([5, 23, 30 * CHUNK + 3]),
    k=st.integers(1, 4),
    count=st.integers(1, 8),
    seed=seeds,
    data=st.data(),
)
def test_continuations_are_the_best_of_all_sums(
    size: int, k: int, count: int, seed: int, data: st.DataObject
) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(3, k, size, generator=generator, dtype=torch.float64)
    scores = torch.randn(3, k, generator=generator, dtype=torch.float64)
    given_ids = data.draw(st.sampled_from([None, torch.tensor([PAD_ID, 2, size - 1])]))
    count = min(count, k * size)
    found, parents, ids = best_continuations(logits, scores, count, given=given_ids)
    total = scores[:, :, None] + logits.log_softmax(dim=-1)
    if given_ids is not None:
        for sentence in (1, 2):
            free = torch.arange(size) != given_ids[sentence]
            total[sentence, :, free] = -torch.inf
    expected, places = total.flatten(1).topk(count, dim=1)
    torch.testing.assert_close(found, expected)
    real = expected > -torch.inf
    assert torch.equal(parents[real], (places // size)[real])
    assert torch.equal(ids[real], (places % size)[real])
