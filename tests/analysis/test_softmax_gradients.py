"""The remark of §3.2.1 on large d_k, as measured."""

from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from transduce.analysis.softmax_gradients import (
    SCORES,
    draw_softmax_gradients,
    jacobian_norms,
    measure_softmax,
)


def test_the_norm_is_that_of_the_softmaxs_own_jacobian() -> None:
    x = torch.randn(5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for row in x:
        exact = torch.func.jacrev(lambda z: z.softmax(dim=0))(row)
        assert_close(jacobian_norms(row.softmax(dim=0)), exact.norm(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("d_k", [4, 256])
def test_dot_products_have_the_variance_of_footnote_4(d_k: int) -> None:
    found = {score: measure_softmax(score, d_k, keys=32, queries=300) for score in SCORES}
    assert found["unscaled"].variance == pytest.approx(d_k, rel=0.1)
    assert found["scaled"].variance == pytest.approx(1, rel=0.1)
    assert found["additive"].variance < 1


def test_only_unscaled_dot_products_lose_their_gradients() -> None:
    small, large = (
        {score: measure_softmax(score, d_k, keys=32, queries=300) for score in SCORES}
        for d_k in (4, 512)
    )
    assert large["unscaled"].jacobian_norm < 0.05 * small["unscaled"].jacobian_norm
    assert large["unscaled"].entropy < 0.2
    for score in ("scaled", "additive"):
        assert large[score].jacobian_norm > 0.5 * small[score].jacobian_norm
        assert large[score].entropy > 2


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = [measure_softmax(score, d_k, queries=50) for score in SCORES for d_k in (4, 8)]
    draw_softmax_gradients(found, tmp_path / "found.png")
    assert (tmp_path / "found.png").read_bytes().startswith(b"\x89PNG")
