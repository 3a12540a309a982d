"""Degenerate output is found; output that repeats itself for a reason is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.search.hypothesis import Hypothesis
from transduce.tasks.degenerate import Fault, badness, fault_of

SOURCE = [11, 12, 13, 14]


def fault(ids: list[int], *, src: list[int] = SOURCE, is_finished: bool = True) -> Fault | None:
    return fault_of(Hypothesis(ids, -1.0, is_finished), src)


@pytest.mark.parametrize(
    "ids",
    [
        [5] * 8,
        [4, 5, 6] + [7, 8] * 4,
        [9, *[5, 6, 7] * 4, 8],  # a full stop after it makes it no better
        [4, *range(20, 36), *range(20, 36), *range(20, 36), *range(20, 36)],
    ],
)
def test_loops(ids: list[int]) -> None:
    assert fault(ids) is Fault.LOOP
    assert fault(ids, is_finished=False) is Fault.LOOP


@pytest.mark.parametrize(
    "ids",
    [
        [5],
        [5] * 7,  # as in 10000000
        [5, 6] * 3,  # again and again and again
        [5, 6, 7, 8, 5, 6, 9, 5, 6, 10, 5, 6, 11, 5, 6],  # repeated, but not in a row
        list(range(4, 100)),
    ],
)
def test_no_loops(ids: list[int]) -> None:
    assert fault(ids) is None
    assert fault(ids, is_finished=False) is Fault.RUNAWAY


def test_a_hypothesis_may_repeat_itself_as_its_source_does() -> None:
    dashes = [5] * 30
    assert fault(dashes, src=[7] * 30) is None
    assert fault([5, 6] * 10, src=[7, 8] * 10) is None
    assert fault([5, 6] * 10, src=[7, 8] * 4) is Fault.LOOP


def test_nothing_is_worse_than_a_loop_is_worse_than_a_missing_end() -> None:
    assert fault([]) is Fault.EMPTY
    order = [None, Fault.RUNAWAY, Fault.LOOP, Fault.EMPTY]
    assert sorted(order, key=badness) == order


@given(
    before=st.lists(st.integers(100, 200), unique=True),
    loop=st.lists(st.integers(4, 99), min_size=2, max_size=16, unique=True),
    after=st.lists(st.integers(200, 300), unique=True),
    repeats=st.integers(1, 8),
)
def test_a_loop_is_found_wherever_it_stands(
    before: list[int], loop: list[int], after: list[int], repeats: int
) -> None:
    expected = Fault.LOOP if repeats >= 4 else None
    assert fault([*before, *loop * repeats, *after]) is expected


@given(ids=st.lists(st.integers(4, 6), min_size=1, max_size=24))
def test_a_loop_is_whatever_is_repeated_often_enough(ids: list[int]) -> None:
    expected = any(
        ids[start : start + size] * repeats == ids[start : start + size * repeats]
        for size, repeats in [(1, 8), *((size, 4) for size in range(2, 7))]
        for start in range(len(ids) - size * repeats + 1)
    )
    assert fault(ids) is (Fault.LOOP if expected else None)
