"""The best continuations are those that sorting everything would give."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import seeds
from transduce.search.candidates import CHUNK, best_continuations, top_of_rows


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
    share=st.sampled_from([None, 0.0, 0.05, 0.5, 1.0]),
    renormalise=st.booleans(),
    shape=st.sampled_from(["by hypothesis", "by sentence", "for all"]),
)
def test_continuations_are_the_best_of_all_allowed_sums(
    size: int, k: int, count: int, seed: int, share: float | None, renormalise: bool, shape: str
) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(3, k, size, generator=generator, dtype=torch.float64)
    scores = torch.randn(3, k, generator=generator, dtype=torch.float64)
    count = min(count, k * size)
    allowed = None
    log_p = logits.log_softmax(dim=-1)
    if share is not None:
        rows = {"by hypothesis": (3, k), "by sentence": (3, 1), "for all": (1, 1)}[shape]
        allowed = torch.rand(*rows, size, generator=generator) < share
        masked = logits.masked_fill(~allowed, -torch.inf)
        log_p = masked.log_softmax(dim=-1) if renormalise else log_p
        log_p = log_p.masked_fill(~allowed, -torch.inf)  # also where nothing is allowed at all
    found, parents, ids = best_continuations(
        logits, scores, count, allowed=allowed, renormalise=renormalise
    )
    expected, places = (scores[:, :, None] + log_p).flatten(1).topk(count, dim=1)
    torch.testing.assert_close(found, expected)
    real = expected > -torch.inf
    assert torch.equal(parents[real], (places // size)[real])
    assert torch.equal(ids[real], (places % size)[real])
    assert ids.min() >= 0
    assert ids.max() < size  # of hypotheses that do not exist, too: the model reads them
