"""Padded and packed batches hold the right sentences, for any position and process."""

import threading

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.drawing import seeds
from transduce.data.batch import Batch
from transduce.data.batching import RowCapacity
from transduce.data.loader import PREFETCHED_STEPS, Epoch, Loader
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
def test_a_padded_batch_holds_its_sentences_with_bos_and_eos(
    drawn: tuple[Store, list[list[int]], list[list[int]]], data: st.DataObject
) -> None:
    store, src, tgt = drawn
    chosen = data.draw(st.lists(st.integers(0, len(src) - 1), min_size=1, max_size=9))
    batch = Batch.padded(store, np.array(chosen, dtype=np.int64))
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


@given(drawn=stores(), data=st.data())
def test_a_packed_row_holds_its_sentences_one_after_another(
    drawn: tuple[Store, list[list[int]], list[list[int]]], data: st.DataObject
) -> None:
    store, src, tgt = drawn
    chosen = data.draw(st.lists(st.integers(0, len(src) - 1), min_size=1, max_size=9))
    batch = Batch.packed(store, np.array(chosen, dtype=np.int64), RowCapacity(150, 160))
    assert sentences_of(batch) == [(src[i], tgt[i]) for i in chosen]
    assert batch.src_tokens == sum(len(src[i]) + 1 for i in chosen)
    assert batch.tgt_tokens == sum(len(tgt[i]) + 1 for i in chosen)
    assert batch.src.shape == (1, 150)
    assert batch.tgt_in.shape == batch.tgt_out.shape == (1, 160)
    for ids in (batch.src[0, batch.src_tokens :], batch.tgt_in[0, batch.tgt_tokens :]):
        assert (ids == PAD_ID).all()


def sentences_of(batch: Batch) -> list[tuple[list[int], list[int]]]:
    """Split a row by the layout of each token."""
    layout = batch.layout
    assert layout is not None
    found = []
    start = 0
    while start < batch.src_tokens:
        first, end, tgt_first, tgt_end = layout.src[:, start].tolist()
        assert first == start < end
        assert (layout.src[:, first:end] == layout.src[:, start, None]).all()
        assert layout.tgt[:, tgt_first].tolist() == [tgt_first, tgt_end, first, end]
        assert layout.src_positions[first:end].tolist() == list(range(end - first))
        *src, src_end = batch.src[0, first:end].tolist()
        *tgt, tgt_end_id = batch.tgt_out[0, tgt_first:tgt_end].tolist()
        assert (src_end, tgt_end_id) == (EOS_ID, EOS_ID)
        assert batch.tgt_in[0, tgt_first:tgt_end].tolist() == [BOS_ID, *tgt]
        found.append((src, tgt))
        start = end
    for bounds, tokens in ((layout.src, batch.src_tokens), (layout.tgt, batch.tgt_tokens)):
        assert (bounds[0, tokens:] == bounds[1, tokens:]).all()
        assert (bounds[2, tokens:] == bounds[3, tokens:]).all()
        assert (bounds.diff(dim=1) >= 0).all()
    return found


@given(drawn=stores(), world=st.integers(1, 3), data=st.data())
def test_resuming_at_a_position_gives_the_same_batches_as_walking_to_it(
    drawn: tuple[Store, list[list[int]], list[list[int]]], world: int, data: st.DataObject
) -> None:
    per_step = data.draw(st.integers(1, 3))
    loader = Loader(drawn[0], max_tokens=30, per_step=per_step, rank=world - 1, world=world)
    walked = [rows_of(batch) for share in loader.steps(2) for batch in share.batches]
    shares = list(loader.steps(2))
    steps = data.draw(st.integers(0, len(shares)))
    done = shares[steps - 1].done if steps else 0
    reached = [rows_of(b) for share in loader.steps(2, done=done) for b in share.batches]
    assert reached == walked[len(walked) - len(reached) :]
    assert len(reached) == sum(len(share.batches) for share in shares[steps:])


def test_the_next_epoch_is_planned_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare, planned = Loader.epoch, []

    def noted(self: Loader, epoch: int) -> Epoch:
        planned.append((epoch, threading.current_thread() is threading.main_thread()))
        if epoch == 2:
            raise OSError("the disk is gone")
        return prepare(self, epoch)

    monkeypatch.setattr(Loader, "epoch", noted)
    rows = [[number] for number in range(4, 99)]
    loader = Loader(Store(side(rows), side(rows), {"source_ends": [len(rows)]}), max_tokens=20)
    for epoch in range(2):
        taken = [row for batch in loader.batches(epoch) for row in batch.src[:, 0].tolist()]
        assert taken == [rows[sentence][0] for sentence in prepare(loader, epoch).plan.sentences]
    with pytest.raises(OSError, match="the disk is gone"):
        loader.steps(2)
    assert planned == [(0, True), (1, False), (2, False)]


@given(drawn=stores(), world=st.integers(1, 4))
def test_an_epoch_of_all_processes_holds_every_pair_once(
    drawn: tuple[Store, list[list[int]], list[list[int]]], world: int
) -> None:
    store, src, tgt = drawn
    loaders = [Loader(store, max_tokens=30, rank=rank, world=world) for rank in range(world)]
    steps = [list(loader.steps(0)) for loader in loaders]
    assert (
        len({tuple((s.first, s.done, s.src_tokens, s.tgt_tokens) for s in one) for one in steps})
        == 1
    )
    for everyones in zip(*steps, strict=True):
        taken = [batch for share in everyones for batch in share.batches]
        assert sum(batch.tgt_tokens for batch in taken) == everyones[0].tgt_tokens
        assert sum(batch.src_tokens for batch in taken) == everyones[0].src_tokens
    shares = [[batch for share in one for batch in share.batches] for one in steps]
    found = [
        (tuple(i for i in s if i > EOS_ID), tuple(i for i in t if i > EOS_ID))
        for share in shares
        for batch in share
        for s, _, t in rows_of(batch)
    ]
    assert sorted(found) == sorted((tuple(s), tuple(t)) for s, t in zip(src, tgt, strict=True))


@given(drawn=stores(), max_tokens=st.integers(1, 60), data=st.data())
def test_a_split_batch_has_the_same_sentences_within_the_limit(
    drawn: tuple[Store, list[list[int]], list[list[int]]], max_tokens: int, data: st.DataObject
) -> None:
    store, src, _ = drawn
    chosen = data.draw(st.lists(st.integers(0, len(src) - 1), min_size=1, max_size=9))
    whole = Batch.padded(store, np.array(chosen, dtype=np.int64))
    pieces = whole.split(max_tokens)
    assert [row for piece in pieces for row in rows_of(piece)] == rows_of(whole)
    assert sum(piece.src_tokens for piece in pieces) == whole.src_tokens
    assert sum(piece.tgt_tokens for piece in pieces) == whole.tgt_tokens
    for piece in pieces:
        padded = max(piece.src.numel(), piece.tgt_out.numel())
        assert padded <= max_tokens or piece.src.size(0) == 1


@given(drawn=stores(), max_tokens=st.integers(1, 60), data=st.data())
def test_a_split_row_has_the_same_sentences_within_the_limit(
    drawn: tuple[Store, list[list[int]], list[list[int]]], max_tokens: int, data: st.DataObject
) -> None:
    store, src, _ = drawn
    chosen = data.draw(st.lists(st.integers(0, len(src) - 1), min_size=1, max_size=9))
    whole = Batch.packed(store, np.array(chosen, dtype=np.int64), RowCapacity(128, 128))
    pieces = whole.split(max_tokens)
    found = [pair for piece in pieces for pair in sentences_of(piece)]
    assert sorted(found) == sorted(sentences_of(whole))
    for piece in pieces:
        width = max(piece.src.numel(), piece.tgt_out.numel())
        assert width <= max_tokens or piece.is_one_pair
        assert not piece.is_one_pair or len(sentences_of(piece)) == 1


def lengthy(pairs: int, *, longest: int = 250, seed: int = 0) -> Store:
    """Draw lengths like those of Europarl; the last pair is the longest."""
    dice = np.random.default_rng(seed)
    src = dice.gamma(2.2, 12.0, pairs).clip(1, 250)
    tgt = (src * dice.normal(1.1, 0.2, pairs)).clip(1, 250)
    src_side, tgt_side = (
        side([[5 + pair] * int(n) for pair, n in enumerate([*some[1:], longest])])
        for some in (src, tgt)
    )
    return Store(src_side, tgt_side, {"source_ends": [pairs]})


def tokens(batches: list[Batch]) -> int:
    return sum(batch.src_tokens + batch.tgt_tokens for batch in batches)


def width(batches: list[Batch]) -> int:
    return sum(batch.src.numel() + batch.tgt_out.numel() for batch in batches)


def shapes(batches: list[Batch]) -> set[tuple[int, int]]:
    return {(batch.src.size(1), batch.tgt_out.size(1)) for batch in batches}


@pytest.mark.parametrize("parts", [2, 3, 8])
def test_the_parts_of_rows_have_one_shape_and_little_padding(parts: int) -> None:
    [*rows, _] = Loader(lengthy(3_000), max_tokens=8_192, packed=True).batches(0)
    pieces = [piece for row in rows for piece in row.split(8_192 // parts)]
    assert len(shapes(pieces)) == 1
    assert tokens(pieces) > 0.9 * width(pieces)


@settings(max_examples=20)
@given(
    seed=seeds,
    longest=st.integers(1, 2_000),
    max_tokens=st.integers(1, 2_000),
    world=st.integers(1, 9),
    per_step=st.integers(1, 5),
)
def test_rows_of_all_processes_hold_every_pair_once_in_few_shapes(
    seed: int, longest: int, max_tokens: int, world: int, per_step: int
) -> None:
    store = lengthy(200, longest=longest, seed=seed)
    loaders = [
        Loader(store, max_tokens, rank=rank, world=world, per_step=per_step, packed=True)
        for rank in range(world)
    ]
    found: set[tuple[int, int]] = set()
    for epoch in range(2):
        batches = [batch for loader in loaders for batch in loader.batches(epoch)]
        pairs = [(src[0], tgt[0]) for batch in batches for src, tgt in sentences_of(batch)]
        assert sorted(pairs) == [(5 + pair, 5 + pair) for pair in range(200)]
        found |= shapes(batches)
    assert len(found) <= 2


@pytest.mark.parametrize(
    ("world", "per_step", "max_tokens"),
    [(2, 1, 8_192), (8, 3, 4_096), (3, 2, 4_096), (8, 1, 4_096)],
)
def test_processes_that_share_batches_take_one_full_row_each(
    world: int, per_step: int, max_tokens: int
) -> None:
    """A step takes as long as its fullest process."""
    store = lengthy(3_000)
    loaders = [
        Loader(store, max_tokens, per_step=per_step, rank=rank, world=world, packed=True)
        for rank in range(world)
    ]
    [*steps, _] = zip(*(loader.steps(0) for loader in loaders), strict=True)
    taken = [[share.batches for share in step] for step in steps]
    everything = [batch for step in taken for batches in step for batch in batches]
    assert len(shapes(everything)) == 1
    slowest = sum(world * max(width(batches) for batches in step) for step in taken)
    assert tokens(everything) > 0.8 * slowest


def test_a_long_pair_does_not_enlarge_other_rows() -> None:
    usual, other = (
        list(Loader(lengthy(3_000, longest=longest), 1_024, packed=True).batches(0))
        for longest in (250, 2_000)
    )
    [alone] = [batch for batch in other if shapes([batch]) != shapes(usual)]
    assert alone.src_tokens == alone.tgt_tokens == 2_001
    assert len(other) <= len(usual) + 2


@given(drawn=stores(), max_length=st.integers(1, 13))
def test_longer_pairs_are_left_out(
    drawn: tuple[Store, list[list[int]], list[list[int]]], max_length: int
) -> None:
    store, src, tgt = drawn
    taken = Loader(store, max_length=max_length).plan(0).sentences
    fit = [
        n
        for n, both in enumerate(zip(src, tgt, strict=True))
        if len(max(both, key=len)) < max_length
    ]
    assert sorted(taken.tolist()) == fit


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
    many = side([[5]] * 50 * PREFETCHED_STEPS)
    loader = Loader(Store(many, many, {"source_ends": [len(many)]}), max_tokens=2)
    batches = loader.batches(0)
    next(batches)
    [thread] = (thread for thread in threading.enumerate() if thread.name == "batches")
    batches.close()
    thread.join(timeout=10)
    assert not thread.is_alive()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_batches_can_be_in_pinned_memory() -> None:
    some = side([[5, 6], [7]])
    store = Store(some, some, {"source_ends": [2]})
    [plain], [pinned] = (list(Loader(store, pin=pin).batches(0)) for pin in (False, True))
    assert pinned.src.is_pinned()
    assert pinned.tgt_in.is_pinned()
    assert pinned.tgt_out.is_pinned()
    assert rows_of(pinned) == rows_of(plain)
    assert torch.equal(pinned.src.to("cuda", non_blocking=True).cpu(), plain.src)
