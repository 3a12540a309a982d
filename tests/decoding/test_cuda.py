"""On a CUDA device a search finds what it finds step by step without graphs and kernels of ours."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from tests.drawing import VOCAB_SIZE, random_ids
from transduce import build_model
from transduce.config.schema import ModelConfig
from transduce.decoding.answer import answer_limits
from transduce.decoding.beam import Beam, beam_search
from transduce.decoding.candidates import CHUNK
from transduce.decoding.ensemble import Ensemble
from transduce.decoding.force import forced_scores
from transduce.decoding.graphs import GraphedBeamSearch
from transduce.models.base import Searchable
from transduce.models.transformer import Transformer
from transduce.nn.attention import attend_as_written, attend_fused
from transduce.nn.sublayer import PostNorm
from transduce.text.special_ids import EOS_ID, PAD_ID

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    # Advice, not faults: a thread that meets the device for the first time.
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),
]

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


@pytest.fixture
def normal() -> Iterator[torch.Generator]:
    with torch.inference_mode():
        yield torch.Generator("cuda").manual_seed(0)


def model_of(seed: int, **changes: object) -> Transformer:
    shape = {"vocab_size": VOCAB_SIZE, "n_layers": 2, "d_model": 64, "d_ff": 128, "h": 4}
    model = build_model(ModelConfig.model_validate(shape | changes), seed=seed).eval()
    with torch.no_grad():
        model.embedding.weight[EOS_ID] *= 2  # or nothing would end before its limit
    return model.cuda()


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
    expected, _ = attend_as_written(q, k, v, allowed=allowed)
    found = attend_fused(q, k, v, allowed=allowed)
    assert found.shape == expected.shape
    assert (found - expected).float().norm() <= TOLERANCE[dtype] * expected.float().norm()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("k", [1, 4, 5, 16])
@pytest.mark.parametrize("step", [0, 1, 40])
@pytest.mark.parametrize(("d_k", "d_v"), [(64, 64), (20, 12)])
def test_every_hypothesis_looks_at_its_own_past(
    normal: torch.Generator, dtype: torch.dtype, k: int, step: int, d_k: int, d_v: int
) -> None:
    from transduce.nn.kernels import attend_past, survivors

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=normal, device="cuda", dtype=dtype)

    q = drawn(3, k, 5, d_k).transpose(1, 2)
    keys, values = drawn(3, 5, 50, k, d_k).flatten(2, 3), drawn(3, 5, 50, k, d_v).flatten(2, 3)
    past = torch.randint(0, k, (3, k, 50), generator=normal, device="cuda")
    is_own = past[..., None] == torch.arange(k, device="cuda")
    is_own[:, :, step + 1 :] = False
    expected, _ = attend_as_written(q, keys, values, allowed=is_own.flatten(2)[:, None])
    position = torch.tensor([step], device="cuda")
    places, counts = survivors(past, position)
    for sentence in range(3):
        left = is_own[sentence].any(dim=0).flatten().nonzero()[:, 0]
        assert places[sentence, : int(counts[sentence])].tolist() == left.tolist()
    found = attend_past(q, keys, values, past, places, counts)
    assert (found - expected).float().norm() <= TOLERANCE[dtype] * expected.float().norm()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("size", [CHUNK * 20, 2_345, 37_000])
@pytest.mark.parametrize("count", [1, 8, 10])
def test_one_pass_over_the_logits_sees_what_torch_sees(
    normal: torch.Generator, dtype: torch.dtype, size: int, count: int
) -> None:
    from transduce.decoding.kernels import likeliest

    logits = 9 * torch.randn(3, 4, size, generator=normal, device="cuda", dtype=dtype)
    logits[0, 0, : size // 2] = -torch.inf
    values, ids, normaliser = likeliest(logits, count)
    expected = logits.topk(count, dim=-1).values.float()
    assert torch.equal(values, expected)
    assert torch.equal(logits.gather(-1, ids).float(), expected)
    assert all(len(set(row.tolist())) == count for row in ids.flatten(0, 1))
    assert_close(normaliser, logits.float().logsumexp(dim=-1, keepdim=True), rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_add_and_norm_in_one_kernel_is_both(normal: torch.Generator, dtype: torch.dtype) -> None:
    layer = PostNorm(100, p_drop=0.1).cuda().to(dtype).eval()
    x, y = torch.randn(2, 3, 7, 100, generator=normal, device="cuda", dtype=dtype)
    layer.norm.weight.normal_(generator=normal)
    layer.norm.bias.normal_(generator=normal)
    expected = layer.norm(x + y)
    assert_close(layer.join(x, y), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("of_two", [False, True])
def test_recorded_steps_find_what_plain_steps_find(size: int, of_two: bool) -> None:
    model: Searchable[Any] = Ensemble([model_of(1), model_of(2)]) if of_two else model_of(1)
    beam = Beam(size, n_best=size)
    graphed = GraphedBeamSearch(model, longest_source=1024, max_positions=100_000)
    for seed, count in enumerate([5, 8, 1, 7, 33, 5]):  # kinds come again, with other sentences
        lengths = [1 + (seed + 3 * row) % 11 for row in range(count)]
        src = random_ids(lengths, seed=seed).cuda()
        limits = answer_limits(src)
        none = torch.zeros(count, 0, dtype=torch.long, device="cuda")
        found = graphed(src, beam, max_tokens=limits.cpu(), prefix=none)
        expected = beam_search(model, src, beam, max_tokens=limits)
        assert [[a.ids for a in answers] for answers in found] == [
            [a.ids for a in answers] for answers in expected
        ]
        for some, others in zip(found, expected, strict=True):
            assert [a.score for a in some] == pytest.approx([a.score for a in others], rel=1e-4)
            assert [a.is_finished for a in some] == [a.is_finished for a in others]


def test_recorded_steps_respect_a_prefix_and_limits() -> None:
    model = model_of(3)
    graphed = GraphedBeamSearch(model, longest_source=1024, max_positions=100_000)
    src = random_ids([5, 3, 9], seed=1).cuda()
    prefix = torch.tensor([[7, 8, 9], [5, PAD_ID, PAD_ID], [PAD_ID] * 3], device="cuda")
    limits = torch.tensor([20, 3, 1])
    found = graphed(src, Beam(3), max_tokens=limits, prefix=prefix)
    expected = beam_search(model, src, Beam(3), max_tokens=limits, prefix=prefix)
    assert [answer.ids for [answer] in found] == [answer.ids for [answer] in expected]
    assert found[0][0].ids[:3] == [7, 8, 9]
    assert found[1][0].ids[0] == 5


def test_memory_is_not_kept_without_bound() -> None:
    model = model_of(4)
    graphed = GraphedBeamSearch(model, longest_source=1024, max_positions=3_000)
    used = []
    for count in 4 * (1, 4, 16, 2, 8):
        src = random_ids([6] * count, seed=count).cuda()
        none = torch.zeros(count, 0, dtype=torch.long, device="cuda")
        graphed(src, Beam(4), max_tokens=answer_limits(src).cpu(), prefix=none)
        used.append(torch.cuda.memory_allocated())
    assert used[15:] == used[10:15]


def test_forced_scores_of_short_sentences_are_those_of_the_cpu() -> None:
    model = model_of(6)
    src, tgt = random_ids([5, 9], seed=1), random_ids([7, 3], seed=2)
    found = forced_scores(model, src.cuda(), tgt.cuda(), tgt.cuda()).tokens.cpu()
    expected = forced_scores(model.cpu(), src, tgt, tgt).tokens
    assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_memory_that_was_dropped_can_be_taken_again() -> None:
    graphed = GraphedBeamSearch(model_of(7), longest_source=1024, max_positions=1)
    src = random_ids([6] * 3, seed=1).cuda()
    none = torch.zeros(3, 0, dtype=torch.long, device="cuda")
    for _ in range(3):  # nothing is kept from one to the next
        assert graphed(src, Beam(4), max_tokens=answer_limits(src).cpu(), prefix=none)
