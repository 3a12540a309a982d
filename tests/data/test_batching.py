"""Every sentence is in one batch, within the limit, in an order that never changes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from transduce.data.batching import (
    CAPACITY_MULTIPLE,
    EpochPlan,
    Lengths,
    RowCapacity,
    hash_noise,
    mix_corpora,
    pack_rows,
)


@st.composite
def corpora(draw: st.DrawFn, *, longest: int = 40) -> tuple[Lengths, Lengths]:
    count = draw(st.integers(1, 200))
    lengths = st.lists(st.integers(1, longest), min_size=count, max_size=count)
    return np.array(draw(lengths)), np.array(draw(lengths))


def plan(
    corpus: tuple[Lengths, Lengths], *, max_tokens: int = 100, seed: int = 1, epoch: int = 0
) -> EpochPlan:
    return EpochPlan.padded(*corpus, max_tokens=max_tokens, seed=seed, epoch=epoch)


@given(corpus=corpora(), max_tokens=st.integers(1, 500), epoch=st.integers(0, 99))
def test_every_sentence_is_in_exactly_one_batch(
    corpus: tuple[Lengths, Lengths], max_tokens: int, epoch: int
) -> None:
    epoch_plan = plan(corpus, max_tokens=max_tokens, epoch=epoch)
    batches = [epoch_plan.batch(index) for index in range(len(epoch_plan))]
    assert sorted(np.concatenate(batches).tolist()) == list(range(corpus[0].size))
    assert all(batch.size for batch in batches)


@given(corpus=corpora(), max_tokens=st.integers(1, 500))
def test_no_batch_exceeds_its_limit_unless_it_is_one_long_sentence(
    corpus: tuple[Lengths, Lengths], max_tokens: int
) -> None:
    epoch_plan = plan(corpus, max_tokens=max_tokens)
    for index in range(len(epoch_plan)):
        batch = epoch_plan.batch(index)
        padded = max(side[batch].max() * batch.size for side in corpus)
        assert padded <= max_tokens or batch.size == 1


def shares(
    epoch_plan: EpochPlan, world: int, *, count: int, done: int = 0
) -> list[list[list[NDArray[np.int64]]]]:
    """What each process takes, step by step."""
    return [
        [
            epoch_plan.step_sentences(first, count=count, rank=rank, world=world)
            for rank in range(world)
        ]
        for first in range(done, len(epoch_plan), count)
    ]


@given(
    corpus=corpora(),
    world=st.integers(1, 9),
    count=st.integers(1, 9),
    max_tokens=st.integers(1, 300),
)
def test_shares_are_disjoint_cover_everything_and_keep_the_limit(
    corpus: tuple[Lengths, Lengths], world: int, count: int, max_tokens: int
) -> None:
    epoch_plan = plan(corpus, max_tokens=max_tokens)
    steps = shares(epoch_plan, world, count=count)
    taken = [batch for step in steps for share in step for batch in share]
    assert sorted(np.concatenate(taken).tolist()) == list(range(corpus[0].size))
    for batch in taken:
        padded = max(side[batch].max(initial=0) * batch.size for side in corpus)
        assert padded <= max_tokens or batch.size == 1
    for number, step in enumerate(steps):
        batches = range(number * count, min((number + 1) * count, len(epoch_plan)))
        smallest = min(epoch_plan.batch(index).size for index in batches)
        assert all(step) or smallest < -(-world // len(batches))


@given(corpus=corpora(), world=st.integers(1, 9), count=st.integers(1, 9))
def test_a_step_takes_the_same_sentences_with_any_number_of_processes(
    corpus: tuple[Lengths, Lengths], world: int, count: int
) -> None:
    alone, together = (shares(plan(corpus), n, count=count) for n in (1, world))
    for one, many in zip(alone, together, strict=True):
        named = [
            sorted(i for share in step for batch in share for i in batch.tolist())
            for step in (one, many)
        ]
        assert named[0] == named[1]


@given(corpus=corpora(), worlds=st.tuples(st.integers(1, 5), st.integers(1, 5)), data=st.data())
def test_another_number_of_processes_resumes_where_the_first_stopped(
    corpus: tuple[Lengths, Lengths], worlds: tuple[int, int], data: st.DataObject
) -> None:
    epoch_plan, count = plan(corpus), data.draw(st.integers(1, 4))
    before, after = worlds
    steps = data.draw(st.integers(0, len(epoch_plan) // count))
    taken = shares(epoch_plan, before, count=count)[:steps]
    taken += shares(epoch_plan, after, count=count, done=steps * count)
    found = np.concatenate([batch for step in taken for share in step for batch in share])
    assert sorted(found.tolist()) == list(range(corpus[0].size))


@given(corpus=corpora(), max_tokens=st.integers(50, 300))
def test_batches_are_as_full_as_their_neighbour_allows(
    corpus: tuple[Lengths, Lengths], max_tokens: int
) -> None:
    """Two batches that fit into one together would have been one."""
    src, tgt = corpus
    count = len(plan(corpus, max_tokens=max_tokens))
    least = max(int(side.sum()) for side in corpus) / max_tokens
    most = int(np.maximum(src, tgt).max()) * src.size / max_tokens
    assert least <= count <= 2 * most + 1


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.int32, np.int64])
def test_the_type_of_the_lengths_changes_nothing(kind: type[np.integer]) -> None:
    src, tgt = np.arange(1, 200) % 30 + 1, np.arange(1, 200) % 17 + 1
    expected = plan((src, tgt)).sentences
    assert np.array_equal(plan((src.astype(kind), tgt.astype(kind))).sentences, expected)


def test_an_empty_corpus_has_no_batches() -> None:
    empty = np.array([], dtype=np.int64)
    assert len(plan((empty, empty))) == 0


@given(corpus=corpora(), seed=st.integers(-(2**70), 2**70), epoch=st.integers(0, 10**6))
def test_the_order_follows_from_seed_and_epoch(
    corpus: tuple[Lengths, Lengths], seed: int, epoch: int
) -> None:
    first, again = (plan(corpus, seed=seed, epoch=epoch) for _ in range(2))
    assert np.array_equal(first.sentences, again.sentences)
    assert np.array_equal(first.starts, again.starts)


def test_another_seed_or_epoch_gives_another_order() -> None:
    corpus = (np.arange(1, 400) % 30 + 1, np.arange(1, 400) % 17 + 1)
    orders = {plan(corpus, seed=s, epoch=e).sentences.tobytes() for s in range(4) for e in range(4)}
    assert len(orders) == 16


def test_the_order_is_the_same_on_every_machine() -> None:
    """The numbers were drawn once; another order would break every interrupted run."""
    corpus = (np.array([3, 1, 2, 3, 1, 2, 3, 1]), np.array([1, 1, 1, 1, 1, 1, 1, 1]))
    assert plan(corpus, max_tokens=4, seed=7, epoch=3).sentences.tolist() == [
        4,
        7,
        1,
        0,
        5,
        2,
        3,
        6,
    ]


def test_mixed_corpora_are_the_same_on_every_machine() -> None:
    """Drawn once, like the order above."""
    assert hash_noise(3, 7, 3).tolist() == [
        5123015643707495125,
        18109886276499397889,
        6964967775204890873,
    ]
    taken = mix_corpora([6, 9], [0.5, 2.0], seed=7, epoch=3).tolist()
    assert taken == [0, 3, 4, 6, 6, 7, 7, 8, 8]


def europarl_like(count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    generator = np.random.default_rng(0)
    src = generator.gamma(2.2, 12.0, count).astype(int) + 1
    tgt = (src * generator.normal(1.1, 0.2, count).clip(0.3)).astype(int) + 1
    return src, tgt


@pytest.mark.parametrize(("count", "most"), [(20_000, 0.15), (200_000, 0.07), (1_000_000, 0.03)])
def test_the_more_sentences_the_less_padding(count: int, most: float) -> None:
    corpus = europarl_like(count)
    epoch_plan = plan(corpus, max_tokens=25_000)
    positions = sum(
        int(side[epoch_plan.batch(index)].max()) * epoch_plan.batch(index).size
        for index in range(len(epoch_plan))
        for side in corpus
    )
    padding = 1 - sum(int(side.sum()) for side in corpus) / positions
    assert padding < most


@given(corpus=corpora(longest=200), max_tokens=st.integers(1, 500), epoch=st.integers(0, 99))
def test_rows_hold_every_sentence_once_within_their_capacity(
    corpus: tuple[Lengths, Lengths], max_tokens: int, epoch: int
) -> None:
    capacity = RowCapacity.within(max_tokens, *corpus)
    epoch_plan = EpochPlan.packed(*corpus, capacity, seed=1, epoch=epoch)
    batches = [epoch_plan.batch(index) for index in range(len(epoch_plan))]
    assert sorted(np.concatenate(batches).tolist()) == list(range(corpus[0].size))
    for batch, following in zip(batches, [*batches[1:], None], strict=True):
        assert batch.size == 1 or capacity.holds(*(side[batch] for side in corpus))
        if following is not None:  # one more would not have fitted
            both = [side[batch].sum() + side[following[0]] for side in corpus]
            assert both[0] > capacity.src or both[1] > capacity.tgt


@given(corpus=corpora(longest=200), max_tokens=st.integers(1, 500))
def test_a_capacity_is_within_the_limit_however_long_a_sentence_is(
    corpus: tuple[Lengths, Lengths], max_tokens: int
) -> None:
    capacity = RowCapacity.within(max_tokens, *corpus)
    assert all(most % CAPACITY_MULTIPLE == 0 for most in capacity)
    assert max(capacity) == max(
        CAPACITY_MULTIPLE, max_tokens // CAPACITY_MULTIPLE * CAPACITY_MULTIPLE
    )


@given(
    corpus=corpora(longest=200),
    capacity=st.builds(RowCapacity, st.integers(1, 500), st.integers(1, 500)),
)
def test_sentences_are_packed_once_into_rows_that_hold_them(
    corpus: tuple[Lengths, Lengths], capacity: RowCapacity
) -> None:
    rows = pack_rows(*corpus, capacity)
    assert sorted(np.concatenate(rows).tolist()) == list(range(corpus[0].size))
    assert all(row.size == 1 or capacity.holds(*(side[row] for side in corpus)) for row in rows)


def test_rows_of_similar_sides_are_nearly_full() -> None:
    dice = np.random.default_rng(0)
    src = dice.integers(1, 60, 20_000)
    tgt = np.maximum(1, src + dice.integers(-5, 4, 20_000))
    capacity = RowCapacity.within(25_000, src, tgt)
    epoch_plan = EpochPlan.packed(src, tgt, capacity, seed=1, epoch=0)
    full = epoch_plan.sentences[: epoch_plan.starts[-2]]
    filled = (src[full].sum() + tgt[full].sum()) / (sum(capacity) * (len(epoch_plan) - 1))
    assert filled > 0.98
