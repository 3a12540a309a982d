"""Every search finds what a plain one finds, whatever the batch, as sentences leave it.

With constraints too: given prefixes, random automata that let hypotheses die, and both.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.drawing import seeds, transformer
from tests.search.constraints import (
    FORBIDDEN,
    AllowedAfter,
    Automaton,
    RenormalisedAutomaton,
    walk,
)
from tests.search.naive import naive_search
from tests.search.recorded_on_cpu import REPLACED
from transduce.models.transformer.model import Transformer
from transduce.models.transformer.settings import TransformerConfig
from transduce.search import beam as beams
from transduce.search import recorded
from transduce.search.beam import Beam, beam_search
from transduce.search.constraint import AllOf, Constraint, PrefixConstraint
from transduce.search.hypothesis import Hypothesis
from transduce.search.recorded import RecordedBeamSearch
from transduce.text.special_ids import EOS_ID, PAD_ID

LONGEST = 20


@pytest.fixture(autouse=True)
def without_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, replacement in REPLACED:
        monkeypatch.setattr(recorded, name, replacement)


def talkative(vocab_size: int, seed: int, eos_scale: float) -> Transformer:
    """Build a model that ends its sentences sooner or later."""
    shape = TransformerConfig(
        vocab_size=vocab_size, n_layers=1, d_model=16, d_ff=16, h=2, max_positions=LONGEST
    )
    model = transformer(shape, seed=seed).double().eval()
    with torch.no_grad():
        model.embedding.weight[EOS_ID] *= eos_scale
    return model


def padded(rows: list[list[int]]) -> Tensor:
    longest = max(map(len, rows))
    filled = [row + [PAD_ID] * (longest - len(row)) for row in rows]
    return torch.tensor(filled, dtype=torch.long).view(len(rows), longest)


def assert_same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [(one.ids, one.is_finished) for one in found] == [
        (one.ids, one.is_finished) for one in expected
    ]
    assert [one.score for one in found] == pytest.approx([one.score for one in expected], rel=1e-4)


@dataclass(frozen=True)
class Rule:
    """A constraint for a batch, and the same in plain Python for each of its sentences."""

    constraint: Constraint | None
    allowed_after: list[AllowedAfter]

    @property
    def renormalises(self) -> bool:
        return self.constraint is not None and self.constraint.renormalises


def prefix_rule(
    draw: Callable[[st.SearchStrategy[list[int]]], list[int]], limits: list[int], vocab_size: int
) -> Rule:
    tokens = st.integers(4, vocab_size - 1)
    prefixes = [draw(st.lists(tokens, max_size=min(3, limit))) for limit in limits]

    def begins_with(prefix: list[int]) -> AllowedAfter:
        return lambda ids: [prefix[len(ids)]] if len(ids) < len(prefix) else list(range(vocab_size))

    has_one = any(prefixes)
    constraint = PrefixConstraint(padded(prefixes), vocab_size) if has_one else None
    return Rule(constraint, list(map(begins_with, prefixes)))


def automaton_rule(
    sentences: int, vocab_size: int, *, seed: int, hypotheses: int, kind: type[Automaton]
) -> Rule:
    """Draw a table of four nodes that forbids most tokens; after one node nothing may follow."""
    generator = torch.Generator().manual_seed(seed)
    table = torch.randint(0, 4, (4, vocab_size), generator=generator)
    is_forbidden = torch.rand(4, vocab_size, generator=generator) < 0.75
    table = table.masked_fill(is_forbidden, FORBIDDEN)
    table[3] = FORBIDDEN
    nodes: list[int] = torch.randint(0, 3, (sentences,), generator=generator).tolist()
    constraint = kind.start(table, nodes, hypotheses=hypotheses)
    return Rule(constraint, [walk(table, node) for node in nodes])


def both(one: Rule, other: Rule) -> Rule:
    constraints = [rule.constraint for rule in (one, other) if rule.constraint is not None]

    def intersection(first: AllowedAfter, second: AllowedAfter) -> AllowedAfter:
        return lambda ids: sorted(set(first(ids)) & set(second(ids)))

    pairs = zip(one.allowed_after, other.allowed_after, strict=True)
    return Rule(AllOf(tuple(constraints)), [intersection(*pair) for pair in pairs])


def check_all_searches(data: st.DataObject) -> None:
    """Compare plain, recorded and naive search on two batches."""
    vocab_size = data.draw(st.sampled_from([5, 8, 300]), label="vocab_size")
    beam = Beam(
        size := data.draw(st.integers(1, 6), label="size"),
        data.draw(st.sampled_from([0.0, 0.6, 3.0]), label="alpha"),
        data.draw(st.integers(1, size), label="n_best"),
    )
    eos_scale = data.draw(st.sampled_from([0.0, 1.0, 2.0, 4.0]), label="eos_scale")
    model = talkative(vocab_size, data.draw(seeds), eos_scale)
    recorded_search = RecordedBeamSearch(model, longest_source=LONGEST, max_positions=2_000)
    kind = data.draw(st.sampled_from([None, Automaton, RenormalisedAutomaton]), label="automaton")
    tokens = st.integers(4, vocab_size - 1)
    for count in (data.draw(st.integers(1, 5)), 3):  # the second may find memory of the first
        rows = [data.draw(st.lists(tokens, min_size=1, max_size=8)) for _ in range(count)]
        limits = [data.draw(st.integers(1, LONGEST)) for _ in rows]
        rule = prefix_rule(data.draw, limits, vocab_size)
        if kind is not None:
            more = automaton_rule(
                count, vocab_size, seed=data.draw(seeds), hypotheses=size, kind=kind
            )
            rule = both(rule, more)
        expected = [
            naive_search(
                model,
                row,
                beam,
                limit=limit,
                allowed_after=allowed_after,
                renormalise=rule.renormalises,
            )
            for row, limit, allowed_after in zip(rows, limits, rule.allowed_after, strict=True)
        ]
        src, most = padded(rows), torch.tensor(limits)
        results = [recorded_search(src, beam, max_tokens=most, constraint=rule.constraint)]
        for share in (0.0, 1.0):
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(beams, "SHRINK_SHARE", share)
                results.append(
                    beam_search(model, src, beam, max_tokens=most, constraint=rule.constraint)
                )
        for result in results:
            for found, wanted in zip(result, expected, strict=True):
                assert_same(found, wanted)


@given(data=st.data())
@settings(max_examples=20)
def test_all_searches_are_the_plain_one(data: st.DataObject) -> None:
    check_all_searches(data)


@pytest.mark.exhaustive
@given(data=st.data())
@settings(max_examples=200)
def test_all_searches_are_the_plain_one_in_many_cases(data: st.DataObject) -> None:
    check_all_searches(data)


def test_automata_let_some_hypotheses_live_and_some_die() -> None:
    # Or the tests above would show less than they seem to.
    model = talkative(8, seed=1, eos_scale=1.0)
    counts = []
    for seed in range(20):
        rule = automaton_rule(1, 8, seed=seed, hypotheses=4, kind=Automaton)
        [found] = beam_search(
            model,
            torch.tensor([[5, 6]]),
            Beam(4, n_best=4),
            max_tokens=torch.tensor([9]),
            constraint=rule.constraint,
        )
        counts.append(len(found))
    assert set(counts) >= {0, 1, 4}


@pytest.mark.parametrize("longest", [LONGEST, None])
def test_sources_are_not_padded_beyond_the_models_positions(longest: int | None) -> None:
    model = talkative(8, seed=1, eos_scale=2.0)
    recorded_search = RecordedBeamSearch(model, longest_source=longest, max_positions=2_000)
    src = torch.full((1, LONGEST - 1 if longest else 16), 5)
    limit = torch.tensor([LONGEST])
    [found] = recorded_search(src, Beam(2), max_tokens=limit)
    assert_same(found, naive_search(model, src[0].tolist(), Beam(2), limit=LONGEST))
