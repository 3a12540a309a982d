import threading

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transduce.data.batch import Batch
from transduce.data.loader import AHEAD, Loader
from transduce.data.store import Sentences, Store
from transduce.text.special_ids import BOS_ID, EOS_ID, PAD_ID

sentences = st.lists(st.lists(st.integers(4, 99), max_size=12), min_size=1, max_size=40)


def side(rows: list[list[int]]) -> Sentences:
    ids = np.array([i for row in rows for i in row], dtype=np.uint16)
    return Sentences(ids, np.cumsum([len(row) for row in rows], dtype=np.int64))


@st.composite
def stores(draw: st.DrawFn) -> tuple[Store, list[list[int]], list[list[int]]]:
    src = draw(sentences)
    tgt = draw(
        st.lists(st.lists(st.integers(4, 99), max_size=12), min_size=len(src), max_size=len(src))
    )
    return Store(side(src), side(tgt), {"source_ends": [len(src)]}), src, tgt


def rows_of(batch: Batch) -> list[tuple[list[int], list[int], list[int]]]:
    return list(zip(batch.src.tolist(), batch.tgt_in.tolist(), batch.tgt_out.tolist(), strict=True))


@given(drawn=stores(), data=st.data())
def test_a_batch_holds_its_sentences_ended_begun_and_padded(
    drawn: tuple[Store, list[list[int]], list[list[int]]], data: st.DataObject
) -> None:
    store, src, tgt = drawn
    chosen = data.draw(st.lists(st.integers(0, len(src) - 1), min_size=1, max_size=9))
    batch = Batch.of(store, np.array(chosen, dtype=np.int64))
    s, t = (max(len(side[i]) for i in chosen) + 1 for side in (src, tgt))

    def filled(row: list[int], length: int) -> list[int]:
        return row + [PAD_ID] * (length - len(row))

    assert rows_of(batch) == [
        (
            filled([*src[i], EOS_ID], s),
            filled([BOS_ID, *tgt[i]], t),
            filled([*tgt[i], EOS_ID], t),
        )
        for i in chosen
    ]
    assert batch.src_tokens == sum(len(src[i]) + 1 for i in chosen)
    assert batch.tgt_tokens == sum(len(tgt[i]) + 1 for i in chosen)


@given(drawn=stores(), world=st.integers(1, 3), data=st.data())
def test_a_position_reached_directly_is_the_one_reached_by_walking(
    drawn: tuple[Store, list[list[int]], list[list[int]]], world: int, data: st.DataObject
) -> None:
    loader = Loader(drawn[0], max_tokens=30, rank=world - 1, world=world)
    walked = [rows_of(batch) for batch in loader.batches(2)]
    steps = data.draw(st.integers(0, len(walked)))
    reached = [rows_of(batch) for batch in loader.batches(2, done=steps * world)]
    assert reached == walked[steps:]


@given(drawn=stores(), world=st.integers(1, 4))
def test_an_epoch_of_all_processes_holds_every_pair_once(
    drawn: tuple[Store, list[list[int]], list[list[int]]], world: int
) -> None:
    store, src, tgt = drawn
    loaders = [Loader(store, max_tokens=30, rank=rank, world=world) for rank in range(world)]
    shares = [list(loader.batches(0)) for loader in loaders]
    assert len({len(share) for share in shares}) == 1
    found = [
        (tuple(i for i in s if i > EOS_ID), tuple(i for i in t if i > EOS_ID))
        for share in shares
        for batch in share
        for s, _, t in rows_of(batch)
    ]
    assert sorted(found) == sorted((tuple(s), tuple(t)) for s, t in zip(src, tgt, strict=True))


class _Failing(Sentences):
    def __getattribute__(self, name: str) -> object:
        if name == "ids":
            raise OSError("the disk is gone")
        return super().__getattribute__(name)


def test_a_failing_loader_raises_where_the_batch_is_awaited() -> None:
    good = side([[5, 6], [7]])
    loader = Loader(Store(good, _Failing(good.ids, good.ends), {"source_ends": [2]}))
    with pytest.raises(OSError, match="the disk is gone"):
        list(loader.batches(0))


def test_a_reader_that_stops_early_lets_the_thread_end() -> None:
    many = side([[5]] * 50 * AHEAD)
    loader = Loader(Store(many, many, {"source_ends": [len(many)]}), max_tokens=2)
    batches = loader.batches(0)
    next(batches)
    [thread] = (thread for thread in threading.enumerate() if thread.name == "batches")
    batches.close()
    thread.join(timeout=10)
    assert not thread.is_alive()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_batches_can_be_ready_in_pinned_memory() -> None:
    some = side([[5, 6], [7]])
    store = Store(some, some, {"source_ends": [2]})
    [plain], [pinned] = (list(Loader(store, pin=pin).batches(0)) for pin in (False, True))
    assert pinned.src.is_pinned()
    assert pinned.tgt_in.is_pinned()
    assert pinned.tgt_out.is_pinned()
    assert rows_of(pinned) == rows_of(plain)
    assert torch.equal(pinned.src.to("cuda", non_blocking=True).cpu(), plain.src)
