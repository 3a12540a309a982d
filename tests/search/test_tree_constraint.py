"""Every search writes trees over exactly the sentence's words, and may write every such tree."""

from collections.abc import Iterator, Sequence
from itertools import product

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.search.bigrams import Bigrams
from tests.search.recorded_on_cpu import REPLACED
from transduce.search import recorded
from transduce.search.beam import Beam, beam_search
from transduce.search.constraints.trees import MAX_OPENED, TokenKind, TreeConstraint
from transduce.search.hypothesis import Hypothesis
from transduce.search.sample import Sampling, sample
from transduce.text.special_ids import EOS_ID
from transduce.trees.brackets import TreeError
from transduce.trees.linearise import CLOSE, Order, is_open, linearise, rebuild

ORDERS: tuple[Order, ...] = ("top-down", "in-order")
TOKENS = ("", "", "", "", "(A", "(B", ")", "NN", "VB")
"""The vocabulary: four special entries, then those of trees."""
KINDS = (
    *[TokenKind.OTHER] * EOS_ID,
    TokenKind.END,
    *[TokenKind.OPEN] * 2,
    TokenKind.CLOSE,
    *[TokenKind.WORD] * 2,
)
assert len(KINDS) == len(TOKENS)


def constrained(
    words: Sequence[int], max_tokens: Sequence[int], *, order: Order, hypotheses: int = 1
) -> TreeConstraint:
    return TreeConstraint.of(
        words,
        KINDS,
        in_order=order == "in-order",
        max_tokens=max_tokens,
        hypotheses=hypotheses,
        device=torch.device("cpu"),
    )


def assert_is_tree(found: Hypothesis, words: int, max_tokens: int, order: Order) -> None:
    assert found.is_finished
    assert len(found.ids) + 1 <= max_tokens
    tokens = [TOKENS[token] for token in found.ids]
    tree = rebuild(tokens, ["w"] * words, order=order)
    assert linearise(tree, order=order, tags="predicted") == tokens


def found_by_all_searches(
    order: Order, words: list[int], limits: list[int], *, seed: int
) -> Iterator[tuple[int, Hypothesis]]:
    """Search for all sentences at once, greedily, with beams and by sampling.

    Each hypothesis comes with the number of its sentence.
    """
    model = Bigrams(len(TOKENS), seed=seed)
    src = torch.tensor([[4 + number % 5, EOS_ID] for number in range(len(words))])
    max_tokens = torch.tensor(limits)
    recorded_search = recorded.RecordedBeamSearch(model, longest_source=None, max_positions=10**9)
    for size in (1, 4, 21):
        constraint = constrained(words, limits, order=order, hypotheses=size)
        beam = Beam(size, alpha=0.3, n_best=size)
        plain = beam_search(model, src, beam, max_tokens=max_tokens, constraint=constraint)
        again = recorded_search(src, beam, max_tokens=max_tokens, constraint=constraint)
        assert [[one.ids for one in found] for found in again] == [
            [one.ids for one in found] for found in plain
        ]
        for number, hypotheses in enumerate(plain):
            assert hypotheses
            yield from ((number, one) for one in hypotheses)
    samples = sample(
        model,
        src,
        Sampling(seed=seed),
        numbers=list(range(len(words))),
        max_tokens=max_tokens,
        constraint=constrained(words, limits, order=order),
    )
    yield from enumerate(samples)


@pytest.fixture
def _recorded_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, replacement in REPLACED:
        monkeypatch.setattr(recorded, name, replacement)


@pytest.mark.usefixtures("_recorded_on_the_cpu")
@pytest.mark.parametrize("order", ORDERS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=8)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 30)), min_size=1, max_size=4),
    st.integers(0, 10**6),
)
def test_every_search_writes_trees_over_exactly_the_words(
    order: Order, sentences: list[tuple[int, int]], seed: int
) -> None:
    words = [count for count, _ in sentences]
    limits = [count + spare for count, spare in sentences]  # at 1 there is room for nothing else
    for number, found in found_by_all_searches(order, words, limits, seed=seed):
        assert_is_tree(found, words[number], limits[number], order)


@pytest.mark.parametrize("order", ORDERS)
def test_a_model_that_only_opens_brackets_still_completes_the_tree(order: Order) -> None:
    model = Bigrams(len(TOKENS), seed=1)
    model._table[:, :, 4] += 100.0
    for limit in (4, 5, 6, 11, 60):
        constraint = constrained([3], [limit], order=order)
        [[found]] = beam_search(
            model,
            torch.tensor([[4, EOS_ID]]),
            Beam(1, alpha=0.0),
            max_tokens=torch.tensor([limit]),
            constraint=constraint,
        )
        assert_is_tree(found, 3, limit, order)
        tokens = [TOKENS[token] for token in found.ids]
        assert max(opened_between_words(tokens)) <= MAX_OPENED
        if limit < 40:  # as many brackets as there is room for
            assert len(found.ids) + 1 > limit - 2


def is_word(token: str) -> bool:
    return not is_open(token) and token not in CLOSE


def opened_between_words(tokens: Sequence[str]) -> list[int]:
    counts = [0]
    for token in tokens:
        if is_open(token):
            counts[-1] += 1
        elif is_word(token):
            counts.append(0)
    return counts


def allowed_sequences(words: int, limit: int, *, order: Order) -> set[tuple[str, ...]]:
    """Follow the constraint through everything it allows."""
    found = set()
    waiting: list[tuple[int, ...]] = [()]
    while waiting:
        ids = waiting.pop()
        constraint = constrained([words], [limit], order=order)
        for place, token in enumerate(ids):
            constraint.advance(torch.tensor([[token]]), torch.tensor([place]))
        for token in constraint.allowed(torch.tensor([len(ids)]))[0, 0].nonzero()[:, 0].tolist():
            if token == EOS_ID:
                found.add(tuple(TOKENS[one] for one in ids))
            else:
                waiting.append((*ids, token))
    return found


def legal_sequences(words: int, limit: int, *, order: Order) -> set[tuple[str, ...]]:
    """Try all sequences of tokens, and keep those that are trees over that many words."""
    found = set()
    for length in range(1, limit):
        for tokens in product(TOKENS[4:], repeat=length):
            if sum(map(is_word, tokens)) != words:
                continue
            try:
                rebuild(tokens, ["w"] * words, order=order)
            except TreeError:
                continue
            found.add(tokens)
    return found


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("words", "limit"), [(1, 2), (1, 6), (2, 3), (2, 6), (3, 6)])
def test_exactly_the_trees_that_fit_are_allowed(words: int, limit: int, order: Order) -> None:
    legal = legal_sequences(words, limit, order=order)
    assert allowed_sequences(words, limit, order=order) == legal
    assert legal


@pytest.mark.exhaustive
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("words", "limit"), [(1, 8), (2, 7), (3, 7), (3, 8), (4, 8)])
def test_exactly_the_longer_trees_that_fit_are_allowed(
    words: int, limit: int, order: Order
) -> None:
    assert allowed_sequences(words, limit, order=order) == legal_sequences(
        words, limit, order=order
    )


def test_brackets_between_two_words_are_bounded() -> None:
    constraint = constrained([1], [1000], order="top-down")
    for place in range(MAX_OPENED):
        assert constraint.allowed(torch.tensor([place]))[0, 0, 4]
        constraint.advance(torch.tensor([[4]]), torch.tensor([place]))
    assert not constraint.allowed(torch.tensor([MAX_OPENED]))[0, 0, 4]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("order", ORDERS)
def test_recorded_steps_on_a_gpu_write_the_same_trees(order: Order) -> None:
    words, limits = [2, 5, 9], [10, 6, 60]
    src, max_tokens = torch.tensor([[4, EOS_ID], [5, EOS_ID], [6, EOS_ID]]), torch.tensor(limits)
    beam = Beam(4, alpha=0.3)
    plain = beam_search(
        Bigrams(len(TOKENS), seed=3),
        src,
        beam,
        max_tokens=max_tokens,
        constraint=constrained(words, limits, order=order, hypotheses=4),
    )
    device = torch.device("cuda")
    search = recorded.RecordedBeamSearch(
        Bigrams(len(TOKENS), seed=3, device="cuda"), longest_source=None, max_positions=10**9
    )
    constraint = TreeConstraint.of(
        words,
        KINDS,
        in_order=order == "in-order",
        max_tokens=limits,
        hypotheses=4,
        device=device,
    )
    for _ in range(3):  # computed, recorded, replayed
        found = search(src.to(device), beam, max_tokens=max_tokens, constraint=constraint)
        assert [one[0].ids for one in found] == [one[0].ids for one in plain]
