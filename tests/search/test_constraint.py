"""A search yields what its constraint allows, in every kind of search, alone and in batches."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.drawing import VOCAB_SIZE, lengths_of, models, padded_ids, random_ids, seeds, transformer
from tests.search.bigrams import Bigrams
from tests.search.constraints import (
    CLOSE,
    FORBIDDEN,
    OPEN,
    Automaton,
    Brackets,
    RenormalisedAutomaton,
    depth_of,
    only,
)
from tests.search.recorded_on_cpu import REPLACED
from transduce.models.base import Searchable
from transduce.models.transformer.model import Transformer
from transduce.models.transformer.settings import TransformerConfig
from transduce.search import recorded
from transduce.search.beam import Beam, Search, beam_search
from transduce.search.constraint import AllOf, Constraint, PrefixConstraint, TextConstraint
from transduce.search.ensemble import Ensemble
from transduce.search.forced import forced_scores
from transduce.search.hypothesis import Hypothesis
from transduce.search.recorded import RecordedBeamSearch
from transduce.search.sample import Sampling, sample
from transduce.text.special_ids import BOS_ID, EOS_ID, PAD_ID

LIMIT = 12
KINDS = [Automaton, RenormalisedAutomaton]
targets = st.lists(st.integers(4, VOCAB_SIZE - 1), max_size=LIMIT - 1)


@pytest.fixture(autouse=True)
def without_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, replacement in REPLACED:
        monkeypatch.setattr(recorded, name, replacement)


def limits_for(src: Tensor) -> Tensor:
    return torch.full((src.size(0),), LIMIT)


def small_model(seed: int = 1) -> Transformer:
    shape = TransformerConfig(vocab_size=VOCAB_SIZE, n_layers=1, d_model=16, d_ff=8, h=2)
    return transformer(shape, seed=seed).double().eval()


def all_searches(
    model: Searchable[Any], src: Tensor, size: int, constraint: Constraint, one: Constraint
) -> list[list[Hypothesis]]:
    """Search in every way; the first constraint is for `size` hypotheses, the second for one."""
    limits = limits_for(src)
    recorded_search = RecordedBeamSearch(model, longest_source=None, max_positions=10_000)
    by_beam = [
        beam_search(model, src, Beam(size), max_tokens=limits, constraint=constraint),
        beam_search(model, src, Beam(1), max_tokens=limits, constraint=one),
        recorded_search(src, Beam(size), max_tokens=limits, constraint=constraint),
    ]
    numbers = list(range(src.size(0)))
    drawn = sample(model, src, Sampling(), numbers=numbers, max_tokens=limits, constraint=one)
    return [*([best for [best] in found] for found in by_beam), drawn]


@given(model=models(), src=padded_ids(), size=st.integers(2, 4), data=st.data())
@settings(max_examples=15)
def test_a_constraint_that_allows_one_sentence_only_yields_it(
    model: Transformer, src: Tensor, size: int, data: st.DataObject
) -> None:
    wanted = [data.draw(targets, label="target") for _ in src]
    kind = data.draw(st.sampled_from(KINDS))

    def constraint(sentences: list[list[int]], hypotheses: int) -> Automaton:
        return only(sentences, vocab_size=VOCAB_SIZE, hypotheses=hypotheses, kind=kind)

    together = all_searches(model, src, size, constraint(wanted, size), constraint(wanted, 1))
    alone = all_searches(
        model, src[:1], size, constraint(wanted[:1], size), constraint(wanted[:1], 1)
    )
    for found in [*together, *alone]:
        assert [(one.ids, one.is_finished) for one in found] == [
            (ids, True) for ids in wanted[: len(found)]
        ]
        if kind is RenormalisedAutomaton:  # what alone is allowed is certain
            assert [one.score for one in found] == pytest.approx([0.0] * len(found), abs=1e-6)
    if kind is Automaton:
        scores = [hypothesis.score for hypothesis in together[-1]]
        assert scores == pytest.approx(forced(model, src, wanted), rel=1e-4)


def forced(model: Transformer, src: Tensor, wanted: list[list[int]]) -> list[float]:
    """Score given translations by the model alone."""
    sums = []
    for row, length, ids in zip(src, lengths_of(src), wanted, strict=True):
        tgt_in, tgt_out = torch.tensor([[BOS_ID, *ids]]), torch.tensor([[*ids, EOS_ID]])
        sums.append(float(forced_scores(model, row[None, :length], tgt_in, tgt_out).sums))
    return sums


BRACKET_SRC = torch.tensor([[2, 1], [3, 1], [4, 1], [5, 1], [6, 1]])


def brackets(hypotheses: int) -> Brackets:
    return Brackets.start(5, hypotheses=hypotheses, vocab_size=7)


@given(size=st.integers(1, 5), seed=seeds)
def test_the_state_of_a_constraint_is_reordered_with_the_beams(size: int, seed: int) -> None:
    model, limits = Bigrams(7, seed=seed), torch.tensor([12, 3, 9, 12, 5])
    beam = Beam(size, n_best=size)
    recorded_search = RecordedBeamSearch(model, longest_source=None, max_positions=10_000)
    found = [
        beam_search(model, BRACKET_SRC, beam, max_tokens=limits, constraint=brackets(size)),
        recorded_search(BRACKET_SRC, beam, max_tokens=limits, constraint=brackets(size)),
    ]
    drawn = sample(
        model,
        BRACKET_SRC,
        Sampling(seed=seed),
        numbers=list(range(5)),
        max_tokens=limits,
        constraint=brackets(1),
    )
    assert found[0] == found[1]
    assert all(found[0])
    for hypothesis in [*(one for its in found[0] for one in its), *drawn]:
        depth = depth_of(hypothesis.ids)
        assert depth == 0 or not hypothesis.is_finished


def test_brackets_are_written_at_all() -> None:
    # Or the test above would show less than it seems to.
    bound: list[list[int]] = []
    free: list[list[int]] = []
    for seed in range(10):
        model, limits, beam = Bigrams(7, seed=seed), torch.full((5,), LIMIT), Beam(4, n_best=4)
        for ids, constraint in ((bound, brackets(4)), (free, None)):
            found = beam_search(model, BRACKET_SRC, beam, max_tokens=limits, constraint=constraint)
            ids += [one.ids for its in found for one in its if one.is_finished]
    assert sum(OPEN in ids for ids in bound) > 20
    assert sum(ids.count(OPEN) != ids.count(CLOSE) for ids in free) > 20


def dead_end(hypotheses: int, *, after: int, kind: type[Automaton]) -> Automaton:
    """Allow any token but EOS, `after` times; then nothing."""
    table = torch.arange(1, after + 2)[:, None].repeat(1, VOCAB_SIZE)
    table[:, EOS_ID] = FORBIDDEN
    table[after] = FORBIDDEN
    return kind.start(table, [0, 0], hypotheses=hypotheses)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 4])
def test_where_nothing_may_follow_every_hypothesis_dies(kind: type[Automaton], size: int) -> None:
    model, src = small_model(), random_ids([5, 3], seed=1)
    limits = torch.tensor([LIMIT, 2])  # the second is cut off before
    constraint = dead_end(size, after=3, kind=kind)
    [died, cut_off] = beam_search(model, src, Beam(size), max_tokens=limits, constraint=constraint)
    assert died == []
    assert (len(cut_off[0].ids), cut_off[0].is_finished) == (2, False)
    assert math.isfinite(cut_off[0].score)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_that_dies_stays_unfinished(kind: type[Automaton]) -> None:
    model, src = small_model(), random_ids([5, 3], seed=1)
    [died, cut_off] = sample(
        model,
        src,
        Sampling(),
        numbers=[0, 1],
        max_tokens=torch.tensor([LIMIT, 2]),
        constraint=dead_end(1, after=3, kind=kind),
    )
    assert (len(died.ids), died.score, died.is_finished) == (3, -math.inf, False)
    assert (len(cut_off.ids), cut_off.is_finished) == (2, False)
    assert math.isfinite(cut_off.score)


def test_a_hypothesis_that_dies_leaves_the_others() -> None:
    """The two best first tokens lead nowhere; a beam of two has to go on with the others."""
    model, src = small_model(), random_ids([5], seed=1)
    free = beam_search(model, src, Beam(4, n_best=4), max_tokens=torch.tensor([1]))
    first = [hypothesis.ids[0] for hypothesis in free[0]]
    table = torch.zeros(3, VOCAB_SIZE, dtype=torch.long)
    table[0] = 1
    table[0, EOS_ID] = FORBIDDEN
    table[0, first[:2]] = 2
    table[2] = FORBIDDEN
    constraint = Automaton.start(table, [0], hypotheses=4)
    [found] = beam_search(
        model, src, Beam(4, n_best=4), max_tokens=torch.tensor([6]), constraint=constraint
    )
    assert {hypothesis.ids[0] for hypothesis in found} <= set(first[2:])
    assert found
    assert all(math.isfinite(hypothesis.score) for hypothesis in found)


@given(model=models(d_model=16), src=padded_ids(), seed=seeds, data=st.data())
@settings(max_examples=15)
def test_a_sample_is_scored_by_the_model_or_among_the_allowed(
    model: Transformer, src: Tensor, seed: int, data: st.DataObject
) -> None:
    generator = torch.Generator().manual_seed(seed)
    allowed = torch.rand(VOCAB_SIZE, generator=generator) < 0.4
    allowed[[EOS_ID, 4]] = True
    allowed[PAD_ID] = False
    table = torch.where(allowed, 0, FORBIDDEN)[None]
    kind = data.draw(st.sampled_from(KINDS))
    drawn = sample(
        model,
        src,
        Sampling(seed=seed, temperature=data.draw(st.sampled_from([0.5, 1.0, 3.0]))),
        numbers=list(range(src.size(0))),
        max_tokens=limits_for(src),
        constraint=kind.start(table, [0] * src.size(0), hypotheses=1),
    )
    for row, length, found in zip(src, lengths_of(src), drawn, strict=True):
        ids = found.ids + [EOS_ID] * found.is_finished
        assert allowed[ids].all()
        logits = model(row[None, :length], torch.tensor([[BOS_ID, *ids[:-1]]]))[0]
        if kind is RenormalisedAutomaton:
            logits = logits.masked_fill(~allowed, -torch.inf)
        log_p = logits.log_softmax(dim=-1).gather(1, torch.tensor(ids)[:, None])
        assert found.score == pytest.approx(float(log_p.sum().detach()), rel=1e-4)


def test_samples_with_a_prefix_are_those_without_that_happen_to_begin_so() -> None:
    model, src = small_model(), random_ids([5] * 40, seed=1)
    numbers, limits = list(range(40)), torch.full((40,), LIMIT)
    free = sample(model, src, Sampling(), numbers=numbers, max_tokens=limits)
    prefix = torch.tensor([[*one.ids[:2], PAD_ID, PAD_ID][:2] for one in free])
    begun = sample(
        model,
        src,
        Sampling(),
        numbers=numbers,
        max_tokens=limits,
        constraint=PrefixConstraint(prefix, VOCAB_SIZE),
    )
    long = [row for row, one in enumerate(free) if len(one.ids) >= 2]
    assert len(long) > 20
    for row in long:
        assert begun[row].ids == free[row].ids
        assert begun[row].score == pytest.approx(free[row].score, rel=1e-6)


def test_a_constraint_holds_for_an_ensemble() -> None:
    models = [small_model(1), small_model(2)]
    src = random_ids([5, 3, 7], seed=1)
    wanted = [[7, 8, 9], [], [4] * 6]
    constraint = only(wanted, vocab_size=VOCAB_SIZE, hypotheses=4)
    one = only(wanted, vocab_size=VOCAB_SIZE, hypotheses=1)
    for found in all_searches(Ensemble(models), src, 4, constraint, one):
        assert [hypothesis.ids for hypothesis in found] == wanted


def test_several_constraints_at_once_renormalise_if_one_does() -> None:
    model, src = small_model(), random_ids([5], seed=1)
    prefix = PrefixConstraint(torch.tensor([[7, 8]]), VOCAB_SIZE)
    for kind in KINDS:
        constraint = AllOf(
            (only([[7, 8, 9]], vocab_size=VOCAB_SIZE, hypotheses=2, kind=kind), prefix)
        )
        assert constraint.renormalises == (kind is RenormalisedAutomaton)
        [[found]] = beam_search(
            model, src, Beam(2), max_tokens=torch.tensor([LIMIT]), constraint=constraint
        )
        assert found.ids == [7, 8, 9]
        assert (found.score > -1e-6) == constraint.renormalises
    contradiction = AllOf((only([[9]], vocab_size=VOCAB_SIZE, hypotheses=2), prefix))
    [found_none] = beam_search(
        model, src, Beam(2), max_tokens=torch.tensor([LIMIT]), constraint=contradiction
    )
    assert found_none == []


@given(
    prefixes=st.lists(st.lists(st.integers(4, 9), max_size=4), min_size=1, max_size=3),
    max_steps=st.integers(1, 6),
)
def test_prefixes_of_any_length_are_copied_as_far_as_steps_go(
    prefixes: list[list[int]], max_steps: int
) -> None:
    rows = [ids + [PAD_ID] * (4 - len(ids)) for ids in prefixes]
    given_prefixes = PrefixConstraint(torch.tensor(rows), vocab_size=10)
    copied = given_prefixes.allocate_like(2, max_steps=max_steps)
    copied.prefix.fill_(9)  # of an earlier search
    last = len(prefixes) - 1
    copied.copy_from(given_prefixes, torch.tensor([last, 0]), steps=0)
    for step in range(max_steps):
        position = torch.tensor([step])
        expected = given_prefixes.allowed(position)[[last, 0]]
        assert torch.equal(copied.allowed(position), expected)
        for row, ids in zip(expected[:, 0], (prefixes[last], prefixes[0]), strict=True):
            its = ids[step : step + 1] or list(range(10))
            assert row.nonzero()[:, 0].tolist() == its


def test_recorded_searches_share_no_memory_with_others_that_renormalise() -> None:
    model, src = small_model(), random_ids([5], seed=1)
    recorded_search = RecordedBeamSearch(model, longest_source=None, max_positions=10_000)
    for kind in [*KINDS, *KINDS]:
        constraint = only([[7, 8, 9]], vocab_size=VOCAB_SIZE, hypotheses=2, kind=kind)
        [[found]] = recorded_search(src, Beam(2), max_tokens=limits_for(src), constraint=constraint)
        assert (found.score > -1e-6) == (kind is RenormalisedAutomaton)


def tensors_of(search: Search[Any]) -> list[Tensor]:
    constraint = search.constraint
    assert isinstance(constraint, AllOf)
    prefix, automaton = constraint.constraints
    assert isinstance(prefix, PrefixConstraint)
    assert isinstance(automaton, Automaton)
    return [prefix.prefix, automaton.table.tensor, automaton.nodes.tensor]


@torch.inference_mode()
def test_the_memory_of_a_constraint_stays_where_it_is() -> None:
    """A recorded step is bound to it."""
    src = random_ids([5, 3], seed=1)
    constraint = AllOf(
        (
            PrefixConstraint(torch.tensor([[7], [5]]), VOCAB_SIZE),
            only([[7, 8, 9], [5, 4]], vocab_size=VOCAB_SIZE, hypotheses=3),
        )
    )
    search = Search.start(
        small_model(), src, Beam(3), limits_for(src), max_steps=LIMIT, constraint=constraint
    )
    before = [tensor.data_ptr() for tensor in tensors_of(search)]
    for step in range(4):
        search.advance(reach=step + 1)
        assert [tensor.data_ptr() for tensor in tensors_of(search)] == before
    other = search.allocate_like(2, max_steps=LIMIT)
    assert not {tensor.data_ptr() for tensor in tensors_of(other)} & set(before)
    other.copy_from(search, [1, 0], steps=4)
    assert torch.equal(tensors_of(other)[2], tensors_of(search)[2][[1, 0]])
    assert torch.equal(tensors_of(other)[1], tensors_of(search)[1])


@pytest.mark.parametrize("size", [1, 3])
def test_a_search_leaves_the_given_constraint_as_it_was(size: int) -> None:
    model, src = small_model(), random_ids([5, 3], seed=1)
    wanted = [[7, 8, 9], [5, 4]]
    constraint = only(wanted, vocab_size=VOCAB_SIZE, hypotheses=size)
    for _ in range(2):
        found = beam_search(
            model, src, Beam(size), max_tokens=limits_for(src), constraint=constraint
        )
        assert [best.ids for [best] in found] == wanted
    assert constraint.nodes.tensor.tolist() == [[0] * size, [4] * size]


@dataclass(frozen=True)
class Following:
    """What may follow some bytes of an ending."""

    first: int
    end: int
    partial: Sequence[int]


TEXTS = [b"", b"", b"", b"", *(b"a" * (n % 3 + 1) + b"b" * (n // 3) for n in range(VOCAB_SIZE - 4))]
"""Of each token: a, aa, aaa, ab, aab, …; special ones have none."""


ORDER = sorted(range(4, VOCAB_SIZE), key=TEXTS.__getitem__)
RANKS = [ORDER.index(token) if token >= 4 else VOCAB_SIZE for token in range(VOCAB_SIZE)]


def agreeing(ending: bytes) -> list[Following]:
    """Find by comparing with every text what `TextConstraint` is given."""
    found = []
    for start in range(len(ending)):
        rest = ending[start:]
        longer = [RANKS[token] for token in range(4, VOCAB_SIZE) if TEXTS[token].startswith(rest)]
        partial = [
            token
            for token in range(4, VOCAB_SIZE)
            if rest.startswith(TEXTS[token]) and rest != TEXTS[token]
        ]
        found.append(Following(min(longer, default=0), max(longer, default=-1) + 1, partial))
    return found


@given(model=models(), src=padded_ids(), size=st.integers(2, 4), data=st.data())
@settings(max_examples=15)
def test_a_text_begins_with_what_is_given_after_the_given_tokens(
    model: Transformer, src: Tensor, size: int, data: st.DataObject
) -> None:
    endings = [data.draw(st.sampled_from([b"", b"a", b"aa", b"aaaaa"])) for _ in src]
    heads = [data.draw(st.lists(st.integers(4, VOCAB_SIZE - 1), max_size=2)) for _ in src]
    padded = torch.tensor([[*head, PAD_ID, PAD_ID, PAD_ID][:3] for head in heads])

    def constraint(hypotheses: int) -> Constraint:
        text = TextConstraint.of(
            [agreeing(ending) for ending in endings],
            [len(head) for head in heads],
            ranks=RANKS,
            sizes=[len(text) for text in TEXTS],
            hypotheses=hypotheses,
            device=torch.device("cpu"),
        )
        return AllOf((PrefixConstraint(padded, VOCAB_SIZE), text))

    for found in all_searches(model, src, size, constraint(size), constraint(1)):
        for one, head, ending in zip(found, heads, endings, strict=True):
            assert one.ids[: len(head)] == head
            assert b"".join(TEXTS[token] for token in one.ids[len(head) :]).startswith(ending)
            assert math.isfinite(one.score)
