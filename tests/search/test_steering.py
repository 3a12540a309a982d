"""Candidates are ranked by their progress, however many kernels that takes."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from transduce.search.constraints import steering

candidates = st.lists(
    st.tuples(st.sampled_from([-math.inf, -2.0, -1.5, -1.0, 0.0]), st.integers(-2, 1)),
    min_size=1,
    max_size=12,
)
tokens = st.lists(st.integers(-1, 4), min_size=1, max_size=9)


def ranked(rows: list[tuple[float, int]]) -> list[int]:
    """Take turns among the degrees of progress; in a turn, the best score comes first."""
    order = sorted(range(len(rows)), key=lambda n: -rows[n][0])
    turns: dict[int, int] = {}
    keys = []
    for position, number in enumerate(order):
        score, progress = rows[number]
        turn = turns.get(progress, 0)
        turns[progress] = turn + 1
        is_missing = score == -math.inf
        keys.append((is_missing, 0 if is_missing else turn, position, number))
    ranks = [0] * len(rows)
    for rank, (*_, number) in enumerate(sorted(keys)):
        ranks[number] = rank
    return ranks


@pytest.mark.parametrize("rank", [steering.rank_by_progress, steering._rank_by_pairs])
@given(rows=candidates)
def test_degrees_of_progress_take_turns(
    rank: Callable[[Tensor, Tensor], Tensor], rows: list[tuple[float, int]]
) -> None:
    scores, progress = (torch.tensor([column]) for column in zip(*rows, strict=True))
    both = rank(torch.cat([scores, scores.flip(1)]), torch.cat([progress, progress.flip(1)]))
    assert both.tolist() == [ranked(rows), ranked(rows[::-1])]


@pytest.mark.parametrize("repeated", [steering.is_repeated, steering._is_repeated_by_pairs])
@given(row=tokens)
def test_a_token_is_repeated_if_it_occurred_before(
    repeated: Callable[[Tensor], Tensor], row: list[int]
) -> None:
    expected = [token in row[:place] for place, token in enumerate(row)]
    assert repeated(torch.tensor([[row, row]])).tolist() == [[expected, expected]]
