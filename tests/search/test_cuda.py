"""On a CUDA device a search finds what it finds without recorded steps and our kernels."""

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tests.drawing import VOCAB_SIZE, random_ids, transformer
from tests.search.bigrams import Bigrams
from tests.search.constraints import (
    FORBIDDEN,
    OPEN,
    Automaton,
    Brackets,
    RenormalisedAutomaton,
    depth_of,
    only,
)
from transduce.models.base import Searchable
from transduce.models.transformer.model import Transformer
from transduce.models.transformer.settings import TransformerConfig
from transduce.nn.add_norm import PostNorm
from transduce.nn.mixers.attention import attend_fused, attend_reference
from transduce.search.beam import Beam, beam_search
from transduce.search.candidates import CHUNK
from transduce.search.constraint import AllOf, Constraint, PrefixConstraint
from transduce.search.ensemble import Ensemble
from transduce.search.forced import forced_scores
from transduce.search.hypothesis import Hypothesis
from transduce.search.recorded import RecordedBeamSearch
from transduce.search.sample import Sampling, sample
from transduce.search.speculative.decoding import speculative_search
from transduce.search.speculative.drafter import ModelDrafter
from transduce.text.special_ids import BOS_ID, EOS_ID, PAD_ID

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    # Advice, not faults: a thread that meets the device for the first time.
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),
]

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
WIDE = 2_000  # entries of a vocabulary for which a beam of 4 takes the kernel
KINDS = [Automaton, RenormalisedAutomaton]


@pytest.fixture
def normal() -> Iterator[torch.Generator]:
    with torch.inference_mode():
        yield torch.Generator("cuda").manual_seed(0)


def model_of(seed: int, **changes: object) -> Transformer:
    shape = {"vocab_size": VOCAB_SIZE, "n_layers": 2, "d_model": 64, "d_ff": 128, "h": 4}
    model = transformer(TransformerConfig.model_validate(shape | changes), seed=seed).eval()
    with torch.no_grad():
        model.embedding.weight[EOS_ID] *= 2  # or nothing would end before its limit
    return model.cuda()


def limits_for(src: Tensor) -> Tensor:
    return (src != PAD_ID).sum(dim=1).cpu() + 50


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("queries", [1, 16])
@pytest.mark.parametrize("keys", [1, 200])
@pytest.mark.parametrize(("d_k", "d_v"), [(64, 64), (20, 12), (128, 128), (512, 512)])
@pytest.mark.parametrize("mask", ["none", "by sentence", "by query"])
def test_few_queries_attend_by_eq_1(
    normal: torch.Generator,
    dtype: torch.dtype,
    queries: int,
    keys: int,
    d_k: int,
    d_v: int,
    mask: str,
) -> None:
    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=normal, device="cuda", dtype=dtype)

    q, k = drawn(3, queries, 5, d_k).transpose(1, 2), drawn(3, 5, 2 * keys, d_k)[:, :, ::2]
    v = drawn(3, 5, keys, d_v)
    allowed = None
    if mask != "none":
        rows = queries if mask == "by query" else 1
        allowed = torch.rand(3, 1, rows, keys, generator=normal, device="cuda") < 0.5
        allowed[..., 0] = True
    expected, _ = attend_reference(q, k, v, allowed=allowed)
    found = attend_fused(q, k, v, allowed=allowed)
    assert found.shape == expected.shape
    assert (found - expected).float().norm() <= TOLERANCE[dtype] * expected.float().norm()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("k", [1, 4, 5, 16])
@pytest.mark.parametrize("step", [0, 1, 40])
@pytest.mark.parametrize(("d_k", "d_v"), [(64, 64), (20, 12)])
def test_every_hypothesis_attends_to_its_own_past(
    normal: torch.Generator, dtype: torch.dtype, k: int, step: int, d_k: int, d_v: int
) -> None:
    from transduce.nn.kernels.search import attend_cached, surviving_slots

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=normal, device="cuda", dtype=dtype)

    q = drawn(3, k, 5, d_k).transpose(1, 2)
    keys, values = drawn(3, 5, 50, k, d_k).flatten(2, 3), drawn(3, 5, 50, k, d_v).flatten(2, 3)
    past = torch.randint(0, k, (3, k, 50), generator=normal, device="cuda")
    is_own = past[..., None] == torch.arange(k, device="cuda")
    is_own[:, :, step + 1 :] = False
    expected, _ = attend_reference(q, keys, values, allowed=is_own.flatten(2)[:, None])
    position = torch.tensor([step], device="cuda")
    places, counts = surviving_slots(past, position)
    for sentence in range(3):
        left = is_own[sentence].any(dim=0).flatten().nonzero()[:, 0]
        assert places[sentence, : int(counts[sentence])].tolist() == left.tolist()
    found = attend_cached(q, keys, values, past, places, counts)
    assert (found - expected).float().norm() <= TOLERANCE[dtype] * expected.float().norm()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("size", [CHUNK * 20, 2_345, 37_000])
@pytest.mark.parametrize("count", [1, 8, 10])
def test_one_pass_over_the_logits_finds_what_torch_finds(
    normal: torch.Generator, dtype: torch.dtype, size: int, count: int
) -> None:
    from transduce.search.kernels import likeliest

    logits = 9 * torch.randn(3, 4, size, generator=normal, device="cuda", dtype=dtype)
    logits[0, 0, : size // 2] = -torch.inf
    values, ids, normaliser = likeliest(logits, count)
    expected = logits.topk(count, dim=-1).values.float()
    assert torch.equal(values, expected)
    assert torch.equal(logits.gather(-1, ids).float(), expected)
    assert all(len(set(row.tolist())) == count for row in ids.flatten(0, 1))
    assert_close(normaliser, logits.float().logsumexp(dim=-1, keepdim=True), rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("size", [CHUNK * 20, 2_345, 37_000])
@pytest.mark.parametrize("rows", [(3, 4), (3, 1), (1, 4), (1, 1)])
@pytest.mark.parametrize("renormalise", [False, True])
def test_one_pass_over_the_logits_chooses_among_the_allowed(
    normal: torch.Generator,
    dtype: torch.dtype,
    size: int,
    rows: tuple[int, int],
    renormalise: bool,
) -> None:
    from transduce.search.kernels import likeliest

    count = 8
    logits = 9 * torch.randn(3, 4, size, generator=normal, device="cuda", dtype=dtype)
    logits[0, 0, : size // 2] = -torch.inf
    allowed = torch.rand(*rows, size, generator=normal, device="cuda") < 0.02
    if rows[0] > 1:
        allowed[1] = False  # nothing
        allowed[2] = torch.arange(size, device="cuda") == size - 1  # fewer than the count
    values, ids, normaliser = likeliest(logits, count, allowed=allowed, renormalise=renormalise)
    masked = logits.masked_fill(~allowed, -torch.inf)
    expected = masked.topk(count, dim=-1).values.float()
    real = expected > -torch.inf
    assert torch.equal(values, expected)
    assert torch.equal(masked.gather(-1, ids).float()[real], expected[real])
    assert ids.min() >= 0
    assert ids.max() < size
    for row, exists in zip(ids.flatten(0, 1), real.flatten(0, 1), strict=True):
        assert len(set(row[exists].tolist())) == int(exists.sum())
    summed = masked if renormalise else logits
    assert_close(normaliser, summed.float().logsumexp(dim=-1, keepdim=True), rtol=1e-6, atol=1e-5)


def test_a_mask_for_whole_hypotheses_is_one_for_all_tokens(normal: torch.Generator) -> None:
    from transduce.search.kernels import likeliest

    logits = torch.randn(2, 3, 2_345, generator=normal, device="cuda")
    allowed = torch.tensor([[True, False, True], [False, True, True]], device="cuda")[:, :, None]
    values, _, _ = likeliest(logits, 4, allowed=allowed)
    assert torch.equal(values, logits.masked_fill(~allowed, -torch.inf).topk(4, dim=-1).values)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_add_and_norm_in_one_kernel_is_both(normal: torch.Generator, dtype: torch.dtype) -> None:
    layer = PostNorm(100, p_drop=0.1).cuda().to(dtype).eval()
    x, y = torch.randn(2, 3, 7, 100, generator=normal, device="cuda", dtype=dtype)
    assert isinstance(layer.norm, torch.nn.LayerNorm)
    layer.norm.weight.normal_(generator=normal)
    layer.norm.bias.normal_(generator=normal)
    expected = layer.norm(x + y)
    assert_close(layer.join(x, y), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def assert_same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    assert [[(one.ids, one.is_finished) for one in its] for its in found] == [
        [(one.ids, one.is_finished) for one in its] for its in expected
    ]
    for some, others in zip(found, expected, strict=True):
        assert [one.score for one in some] == pytest.approx([one.score for one in others], rel=1e-4)


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("of_two", [False, True])
def test_recorded_steps_find_what_plain_steps_find(size: int, of_two: bool) -> None:
    model: Searchable[Any] = Ensemble([model_of(1), model_of(2)]) if of_two else model_of(1)
    beam = Beam(size, n_best=size)
    recorded = RecordedBeamSearch(model, longest_source=1024, max_positions=100_000)
    for seed, count in enumerate([5, 8, 1, 7, 33, 5]):  # shapes come again, with other sentences
        lengths = [1 + (seed + 3 * row) % 11 for row in range(count)]
        src = random_ids(lengths, seed=seed).cuda()
        limits = limits_for(src)
        found = recorded(src, beam, max_tokens=limits)
        assert_same(found, beam_search(model, src, beam, max_tokens=limits))


def test_recorded_steps_respect_a_prefix_and_limits() -> None:
    model = model_of(3)
    recorded = RecordedBeamSearch(model, longest_source=1024, max_positions=100_000)
    src = random_ids([5, 3, 9], seed=1).cuda()
    prefix = torch.tensor([[7, 8, 9], [5, PAD_ID, PAD_ID], [PAD_ID] * 3], device="cuda")
    constraint = PrefixConstraint(prefix, VOCAB_SIZE)
    limits = torch.tensor([20, 3, 1])
    found = recorded(src, Beam(3), max_tokens=limits, constraint=constraint)
    assert_same(found, beam_search(model, src, Beam(3), max_tokens=limits, constraint=constraint))
    assert found[0][0].ids[:3] == [7, 8, 9]
    assert found[1][0].ids[0] == 5


@pytest.mark.parametrize("vocab_size", [VOCAB_SIZE, WIDE])
@pytest.mark.parametrize("kind", KINDS)
def test_a_constraint_that_allows_one_sentence_only_yields_it(
    vocab_size: int, kind: type[Automaton]
) -> None:
    model = model_of(1, vocab_size=vocab_size)
    recorded = RecordedBeamSearch(model, longest_source=1024, max_positions=100_000)
    for seed, count in enumerate([1, 5, 8, 5, 1]):  # the memory of the first is used again
        src = random_ids([1 + (seed + 3 * row) % 7 for row in range(count)], seed=seed).cuda()
        wanted = [[4 + (seed + 5 * row + n) % 19 for n in range(row % 9)] for row in range(count)]
        limits = torch.full((count,), 12)

        def constraint(hypotheses: int, wanted: list[list[int]] = wanted) -> Automaton:
            return only(
                wanted, vocab_size=vocab_size, hypotheses=hypotheses, device="cuda", kind=kind
            )

        found = [
            [best for [best] in search(src, beam, max_tokens=limits, constraint=its)]
            for beam, its in ((Beam(1), constraint(1)), (Beam(4), constraint(4)))
            for search in (partial(beam_search, model), recorded)
        ]
        numbers = list(range(count))
        found.append(
            sample(
                model,
                src,
                Sampling(),
                numbers=numbers,
                max_tokens=limits,
                constraint=constraint(1),
            )
        )
        for each in found:
            assert [(one.ids, one.is_finished) for one in each] == [(ids, True) for ids in wanted]
        expected = [0.0] * count if kind is RenormalisedAutomaton else forced(model, src, wanted)
        assert [one.score for one in found[-1]] == pytest.approx(expected, rel=1e-3, abs=1e-3)


def forced(model: Transformer, src: Tensor, targets: list[list[int]]) -> list[float]:
    """Score translations by the model alone."""

    def padded(rows: list[list[int]]) -> Tensor:
        longest = max(map(len, rows))
        return torch.tensor([row + [PAD_ID] * (longest - len(row)) for row in rows]).cuda()

    tgt_in = padded([[BOS_ID, *ids] for ids in targets])
    tgt_out = padded([[*ids, EOS_ID] for ids in targets])
    sums: list[float] = forced_scores(model, src, tgt_in, tgt_out).sums.tolist()
    return sums


def random_automaton(
    sentences: int, *, vocab_size: int, seed: int, kind: type[Automaton]
) -> Automaton:
    """Draw a table of four nodes that forbids most tokens; after one node nothing may follow."""
    generator = torch.Generator().manual_seed(seed)
    table = torch.randint(0, 4, (4, vocab_size), generator=generator)
    is_forbidden = torch.rand(4, vocab_size, generator=generator) < 0.75
    table = table.masked_fill(is_forbidden, FORBIDDEN)
    table[3] = FORBIDDEN
    nodes: list[int] = torch.randint(0, 3, (sentences,), generator=generator).tolist()
    return kind.start(table.cuda(), nodes, hypotheses=4)


@pytest.mark.parametrize("vocab_size", [VOCAB_SIZE, WIDE])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("with_prefix", [False, True])
def test_recorded_steps_obey_a_constraint_as_plain_steps_do(
    vocab_size: int, kind: type[Automaton], with_prefix: bool
) -> None:
    model = model_of(5, vocab_size=vocab_size)
    recorded = RecordedBeamSearch(model, longest_source=None, max_positions=100_000)
    beam = Beam(4, n_best=4)
    results: list[list[Hypothesis]] = []
    for seed, count in enumerate([5, 8, 1, 7, 33, 5]):
        src = random_ids([1 + (seed + 3 * row) % 11 for row in range(count)], seed=seed).cuda()
        limits = torch.tensor([12 - row % 5 for row in range(count)])
        constraint: Constraint = random_automaton(
            count, vocab_size=vocab_size, seed=seed, kind=kind
        )
        if with_prefix:
            first = torch.tensor([[4 + row % 5 if row % 2 else PAD_ID] for row in range(count)])
            constraint = AllOf((constraint, PrefixConstraint(first.cuda(), vocab_size)))
        expected = beam_search(model, src, beam, max_tokens=limits, constraint=constraint)
        assert_same(recorded(src, beam, max_tokens=limits, constraint=constraint), expected)
        results += expected
    assert all(math.isfinite(one.score) for its in results for one in its)
    assert any(results)


def test_the_state_of_a_constraint_is_reordered_with_the_beams() -> None:
    src = torch.tensor([[2, 1], [3, 1], [4, 1], [5, 1], [6, 1]])
    beam, limits = Beam(4, n_best=4), torch.tensor([12, 3, 9, 12, 5])
    written: list[list[int]] = []
    for seed in range(5):
        here, there = Bigrams(7, seed=seed), Bigrams(7, seed=seed, device="cuda")
        recorded = RecordedBeamSearch(there, longest_source=None, max_positions=100_000)
        expected = beam_search(
            here,
            src,
            beam,
            max_tokens=limits,
            constraint=Brackets.start(5, hypotheses=4, vocab_size=7),
        )
        for _ in range(2):  # the second time from the memory of the first
            constraint = Brackets.start(5, hypotheses=4, vocab_size=7, device="cuda")
            found = recorded(src.cuda(), beam, max_tokens=limits, constraint=constraint)
            assert_same(found, expected)
        written += [one.ids for its in expected for one in its if one.is_finished]
    assert all(depth_of(ids) == 0 for ids in written)
    assert any(OPEN in ids for ids in written)


@pytest.mark.parametrize("is_constrained", [False, True])
def test_memory_is_not_kept_without_bound(is_constrained: bool) -> None:
    model = model_of(4)
    recorded = RecordedBeamSearch(model, longest_source=1024, max_positions=3_000)
    used = []
    for count in 4 * (1, 4, 16, 2, 8):
        src = random_ids([6] * count, seed=count).cuda()
        constraint = None
        if is_constrained:
            constraint = random_automaton(count, vocab_size=VOCAB_SIZE, seed=count, kind=Automaton)
        recorded(src, Beam(4), max_tokens=limits_for(src), constraint=constraint)
        del constraint
        used.append(torch.cuda.memory_allocated())
    assert used[15:] == used[10:15]


def test_forced_scores_of_short_sentences_are_those_of_the_cpu() -> None:
    model = model_of(6)
    src, tgt = random_ids([5, 9], seed=1), random_ids([7, 3], seed=2)
    found = forced_scores(model, src.cuda(), tgt.cuda(), tgt.cuda()).tokens.cpu()
    expected = forced_scores(model.cpu(), src, tgt, tgt).tokens
    assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_memory_that_was_dropped_can_be_allocated_again() -> None:
    recorded = RecordedBeamSearch(model_of(7), longest_source=1024, max_positions=1)
    src = random_ids([6] * 3, seed=1).cuda()
    for _ in range(3):  # nothing is kept from one to the next
        assert recorded(src, Beam(4), max_tokens=limits_for(src))


@pytest.mark.parametrize("changes", [{}, {"positions": "relative"}, {"positions": "rotary"}])
def test_speculative_decoding_finds_what_recorded_greedy_search_finds(changes: Any) -> None:
    model, draft = model_of(1, **changes), model_of(2, n_layers=1)
    search = RecordedBeamSearch(model, longest_source=64, max_positions=2**14)
    for seed in range(20):
        src = random_ids([3 + seed % 5], seed=seed).cuda()
        [[expected]] = search(src, Beam(1), max_tokens=limits_for(src), constraint=None)
        for drafter in (ModelDrafter(draft), ModelDrafter(model)):
            limit = int(limits_for(src))
            [found] = speculative_search(model, src, drafter, max_tokens=limit)
            assert (found.ids, found.is_finished) == (expected.ids, expected.is_finished)
            assert math.isclose(found.score, expected.score, abs_tol=1e-3)
