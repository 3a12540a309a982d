"""How many rows a GPU multiplies in whole waves, with no multiprocessor idle at the end."""

import math
from itertools import count
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transduce.nn.linear import TILE_COLUMNS, TILE_ROWS, rows_in_whole_waves

CUDA = torch.device("cuda")


@given(
    rows=st.integers(1, 300_000),
    width=st.integers(1, 5_000),
    multiprocessors=st.integers(1, 200),
)
def test_rows_fill_whole_waves_or_are_fewer_than_one(
    rows: int, width: int, multiprocessors: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        device = SimpleNamespace(multi_processor_count=multiprocessors)
        patch.setattr(torch.cuda, "get_device_properties", lambda _: device)
        rounded = rows_in_whole_waves(rows, width, CUDA)
    across = math.ceil(width / TILE_COLUMNS)
    one_wave = next(down for down in count(1) if down * across % multiprocessors == 0) * TILE_ROWS
    assert rounded == (rows // one_wave * one_wave or rows), (
        "fewer rows than one wave are left as they are"
    )


def test_an_h200_takes_12_waves_where_51200_rows_would_begin_a_13th() -> None:
    with pytest.MonkeyPatch.context() as patch:
        device = SimpleNamespace(multi_processor_count=132)
        patch.setattr(torch.cuda, "get_device_properties", lambda _: device)
        assert rows_in_whole_waves(51_200, 1024, CUDA) == 50_688


def test_a_cpu_has_no_waves() -> None:
    assert rows_in_whole_waves(51_200, 1024, torch.device("cpu")) == 51_200
