import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import seeds
from transduce.nn.dropout import Dropout

chances = st.one_of(st.sampled_from([0.1, 0.3]), st.floats(0.001, 0.999))


@given(seed=seeds, p=chances)
def test_each_element_is_dropped_with_probability_p(seed: int, p: float) -> None:
    torch.manual_seed(seed)
    count = 200_003
    dropped = (Dropout(p)(torch.ones(count)) == 0).sum().item()
    deviation = math.sqrt(count * p * (1 - p))
    assert abs(dropped - count * p) < 6 * deviation + count * 2**-17


@given(seed=seeds, p=chances, shape=st.lists(st.integers(0, 5), max_size=3))
def test_kept_elements_and_their_gradients_are_scaled_up(
    seed: int, p: float, shape: list[int]
) -> None:
    torch.manual_seed(seed)
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    y = Dropout(p)(x)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    kept = gradient != 0
    assert torch.equal(y, x * gradient)
    torch.testing.assert_close(
        gradient[kept], torch.full_like(gradient[kept], 1 / (1 - p)), rtol=0.01, atol=0
    )


def test_the_scale_makes_up_for_dropped_elements() -> None:
    x = Dropout(0.1)(torch.ones(1000, dtype=torch.float64))
    dropped = round(0.1 * 2**16) / 2**16
    torch.testing.assert_close(x.max().item(), 1 / (1 - dropped), rtol=1e-15, atol=0)


def test_neighbours_are_dropped_independently() -> None:
    torch.manual_seed(0)
    dropped = (Dropout(0.5)(torch.ones(100_000, 4)) == 0).double()  # four from one draw
    deviation = torch.corrcoef(dropped.T) - torch.eye(4, dtype=torch.float64)
    assert deviation.abs().max() < 6 / math.sqrt(100_000)
    shifted = torch.corrcoef(torch.stack([dropped[1:, 0], dropped[:-1, 3]]))[0, 1]
    assert abs(shifted) < 6 / math.sqrt(100_000)


def test_equal_seeds_drop_the_same_with_any_number_of_threads() -> None:
    x, results, threads = torch.randn(300, 300), [], torch.get_num_threads()
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            torch.manual_seed(5)
            results.append((Dropout(0.1)(x), Dropout(0.1)(x)))
    finally:
        torch.set_num_threads(threads)
    (first, second), (first_again, second_again) = results
    assert torch.equal(first, first_again)
    assert torch.equal(second, second_again)
    assert not torch.equal(first, second)


def test_nothing_is_dropped_at_p_0_or_outside_training() -> None:
    x = torch.randn(50, 50)
    assert torch.equal(Dropout(0.0)(x), x)
    assert torch.equal(Dropout(0.5).eval()(x), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_dropout_keeps_the_dtype(dtype: torch.dtype) -> None:
    assert Dropout(0.5)(torch.ones(3, 3, dtype=dtype)).dtype == dtype


def test_dropout_compiles_to_one_graph() -> None:
    torch.compiler.reset()
    x = torch.ones(100, 100)
    y = torch.compile(Dropout(0.5), fullgraph=True, backend="aot_eager")(x)
    assert set(y.unique().tolist()) == {0.0, 2.0}
