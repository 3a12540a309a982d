"""The aligner is variational EM as written down plainly, and finds links that are known."""

import math
from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from transduce.data.alignment.aligner import ALPHA, DIAGONAL, P_NULL, UNSEEN, train_aligner
from transduce.data.alignment.pair_table import PairTable, pair_keys
from transduce.data.encoding.side import Side

NULL = 0
Rows = list[list[int]]
Table = dict[tuple[int, int], float]
sentences = st.lists(st.integers(4, 9), min_size=1, max_size=6)
corpora = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=8)


def side(rows: Rows) -> Side:
    ids = np.array([one for row in rows for one in row], dtype=np.uint16)
    return Side(ids, np.array([len(row) for row in rows], dtype=np.int64))


def priors(given: int, explained: int, place: int) -> list[float]:
    """Return p(a = i) of one explained token, i = 0 for NULL."""
    near = [math.exp(-DIAGONAL * abs(i / given - place / explained)) for i in range(1, given + 1)]
    return [P_NULL, *((1 - P_NULL) * one / sum(near) for one in near)]


def joint(table: Table, given: list[int], explained: list[int], place: int) -> list[float]:
    prior = priors(len(given), len(explained), place + 1)
    tokens = [NULL, *given]
    return [
        one * table.get((token, explained[place]), float(UNSEEN))
        for one, token in zip(prior, tokens, strict=True)
    ]


def plain_em(givens: Rows, explaineds: Rows, *, iterations: int) -> Table:
    """Learn p(explained | given), with one loop for each thing that is summed over."""
    table: Table = defaultdict(lambda: 1.0)
    pairs = list(zip(givens, explaineds, strict=True))
    kinds = {(one, other) for g, e in pairs for one in [NULL, *g] for other in e}
    # As a token may translate nothing in either direction, each is also paired with NULL.
    kinds |= {(one, NULL) for g, _ in pairs for one in g} | {(NULL, NULL)}
    for _ in range(iterations):
        counts: Table = defaultdict(float)
        for g, e in pairs:
            for place in range(len(e)):
                cells = joint(table, g, e, place)
                for token, cell in zip([NULL, *g], cells, strict=True):
                    counts[token, e[place]] += cell / sum(cells)
        totals: dict[int, float] = defaultdict(float)
        for one, other in kinds:
            totals[one] += counts[one, other] + ALPHA
        table = {
            (one, other): math.exp(_digamma(counts[one, other] + ALPHA) - _digamma(totals[one]))
            for one, other in kinds
        }
    return table


def _digamma(x: float) -> float:
    return float(torch.digamma(torch.tensor(x, dtype=torch.float64)))


@settings(max_examples=25)
@given(corpus=corpora, iterations=st.integers(1, 3))
def test_it_learns_what_plain_em_learns_in_both_directions(
    corpus: list[tuple[list[int], list[int]]], iterations: int
) -> None:
    src, tgt = [one for one, _ in corpus], [other for _, other in corpus]
    found = train_aligner(side(src), side(tgt), iterations=iterations)
    forward = plain_em(src, tgt, iterations=iterations)
    backward = plain_em(tgt, src, iterations=iterations)

    def learnt(one: int, other: int) -> tuple[float, float]:
        [place] = found.table.find(pair_keys(np.array([one]), np.array([other])))
        assert place >= 0
        return float(found.forward[place]), float(found.backward[place])

    for g, e in corpus:
        for one in g:
            for other in e:
                expected = forward[one, other], backward[other, one]
                assert learnt(one, other) == pytest.approx(expected, rel=2e-3, abs=1e-30)


def corpus_with_links(count: int, *, seed: int) -> tuple[Rows, Rows, list[NDArray[np.int64]]]:
    """Write sentences without repeated tokens, and their words translated and moved a little."""
    rng = np.random.default_rng(seed)
    words, shares = np.arange(4, 204), 1 / np.arange(1, 201)
    translations = rng.permutation(words)
    src, tgt, links = [], [], []
    for _ in range(count):
        sentence = rng.choice(200, rng.integers(2, 10), p=shares / shares.sum(), replace=False)
        order = np.argsort(np.arange(sentence.size) + rng.uniform(0, 2.5, sentence.size))
        src.append(words[sentence].tolist())
        tgt.append(translations[sentence][order].tolist())
        links.append(order + 1)
    return src, tgt, links


def test_it_finds_known_links() -> None:
    src, tgt, links = corpus_with_links(1500, seed=1)
    found = train_aligner(side(src), side(tgt)).pruned().links(side(src), side(tgt))
    expected = np.concatenate(links)
    assert (found > 0).mean() > 0.98
    assert (found == expected)[found > 0].mean() > 0.99


def test_a_word_that_translates_nothing_has_no_link() -> None:
    src, tgt, _ = corpus_with_links(400, seed=2)
    with_extra = [[*row, 999] for row in tgt]
    found = train_aligner(side(src), side(with_extra)).links(side(src), side(with_extra))
    ends = np.cumsum([len(row) for row in with_extra]) - 1
    assert (found[ends] > 0).mean() < 0.1


def test_each_source_token_has_at_most_one_link() -> None:
    src, tgt, _ = corpus_with_links(200, seed=3)
    found = train_aligner(side(src), side(tgt)).links(side(src), side(tgt))
    bounds = [0, *np.cumsum([len(row) for row in tgt])]
    for (start, end), row in zip(pairwise(bounds), src, strict=True):
        linked = found[start:end][found[start:end] > 0].tolist()
        assert len(set(linked)) == len(linked)
        assert all(1 <= one <= len(row) for one in linked)


def test_empty_sides_and_huge_pairs_have_no_links(monkeypatch: pytest.MonkeyPatch) -> None:
    src, tgt, _ = corpus_with_links(50, seed=4)
    aligner = train_aligner(side([*src, []]), side([*tgt, [7]]))
    assert aligner.links(side([[]]), side([[7, 8]])).tolist() == [0, 0]
    assert aligner.links(side([[7]]), side([[]])).tolist() == []
    assert aligner.links(side([[7] * 70_000]), side([[7] * 2])).tolist() == [0, 0]
    monkeypatch.setattr("transduce.data.alignment.grids.MAX_PAIR_CELLS", 8)
    assert not aligner.links(side([src[0] * 4]), side([tgt[0] * 4])).any()


@settings(max_examples=25)
@given(
    batches=st.lists(st.sets(st.integers(0, 2**62), max_size=3000), max_size=4),
    others=st.sets(st.integers(0, 2**62), max_size=50),
)
def test_a_table_finds_what_it_holds_and_nothing_else(
    batches: list[set[int]], others: set[int]
) -> None:
    rows = [np.array(sorted(one), dtype=np.uint64) for one in batches]
    table = PairTable.of(rows, max_slots=1 << 20)
    held = set().union(*batches)
    assert table.taken == len(held)
    keys = np.array(sorted(held), dtype=np.uint64)
    places = table.find(keys)
    assert (table.slots[places] == keys).all()
    absent = np.array(sorted(others - held), dtype=np.uint64)
    assert (table.find(absent) == -1).all()


def test_a_full_table_keeps_the_first_and_stays_bounded() -> None:
    keys = np.arange(10_000, dtype=np.uint64)
    table = PairTable.of([keys[:2000], keys[2000:]], max_slots=1 << 12)
    assert table.slots.size == 1 << 12
    assert (table.find(keys[:2000]) >= 0).all()
    assert 0 < table.taken < 4096
    assert (table.find(keys) >= 0).sum() == table.taken
