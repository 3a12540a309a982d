"""Attention that depends on distances is the same in every form: plain, fused, packed, cached."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from tests.drawing import seeds
from tests.nn.distances import (
    TERMS,
    Kind,
    attentions,
    kinds,
    packed_ranges,
    random_states,
    with_random_weights,
)
from transduce.errors import InputError
from transduce.nn.initialise import initialise
from transduce.nn.mixers.attention import (
    AttentionRecorder,
    MultiHeadAttention,
    attend_fused,
    attend_reference,
)
from transduce.nn.mixers.masks import Allowed
from transduce.nn.mixers.positions import (
    DistancePenalty,
    RelativeScores,
    ScoreTerm,
    SinusoidalPositions,
)
from transduce.nn.step_state import BeamHistory, StepContext

sizes = st.integers(1, 7)
windows = st.none() | st.integers(1, 8)
lengths = st.lists(st.integers(1, 9), min_size=1, max_size=4)
MAX_STEPS = 8


@st.composite
def random_terms(draw: st.DrawFn, b: int, h: int, t: int) -> ScoreTerm:
    """Draw a table for all sentences and queries together, or for each its own."""
    max_distance = draw(st.integers(0, 9))
    b, t = draw(st.sampled_from([1, b])), draw(st.sampled_from([1, t]))
    table = random_states(b, h, t, 2 * max_distance + 1, seed=draw(seeds))
    return ScoreTerm(table.requires_grad_())


@st.composite
def self_attention_inputs(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor]:
    b, h, t, d_k, d_v = (draw(sizes) for _ in range(5))
    shapes = ((b, h, t, d_k), (b, h, t, d_k), (b, h, t, d_v))
    q, k, v = (random_states(*shape, seed=draw(seeds)).requires_grad_() for shape in shapes)
    return q, k, v


@st.composite
def allowed_keys(draw: st.DrawFn, b: int, t: int) -> tuple[Allowed, bool]:
    """Draw what limits the keys, and whether it is causal as well."""
    kind = draw(st.sampled_from(["all", "causal", "mask", "ranges", "causal ranges"]))
    if kind == "mask":
        generator = torch.Generator().manual_seed(draw(seeds))
        mask = torch.rand(b, 1, t, t, generator=generator) < 0.5
        return mask | torch.eye(t, dtype=torch.bool), False
    if kind.endswith("ranges"):
        cut = draw(st.integers(0, t - 1))
        ranges = packed_ranges([cut, t - cut] if cut else [t])
        return ranges, kind.startswith("causal")
    return None, kind == "causal"


@given(inputs=self_attention_inputs(), window=windows, data=st.data())
def test_fused_attention_is_the_reference_in_value_and_gradient(
    inputs: tuple[Tensor, Tensor, Tensor], window: int | None, data: st.DataObject
) -> None:
    q, k, v = inputs
    b, h, t, _ = q.shape
    allowed, causal = data.draw(allowed_keys(b, t))
    term = data.draw(st.none() | random_terms(b, h, t))
    reference, _ = attend_reference(
        q, k, v, allowed=allowed, causal=causal, term=term, window=window
    )
    fused = attend_fused(q, k, v, allowed=allowed, causal=causal, term=term, window=window)
    assert_close(fused, reference, rtol=0, atol=1e-12)
    upstream = torch.randn_like(fused)
    leaves = (q, k, v) if term is None else (q, k, v, term.table)
    for ours, theirs in zip(
        torch.autograd.grad(fused, leaves, upstream),
        torch.autograd.grad(reference, leaves, upstream),
        strict=True,
    ):
        assert_close(ours, theirs, rtol=0, atol=1e-11)


@given(b=sizes, h=sizes, t=sizes, s=sizes, data=st.data())
def test_a_dense_term_has_the_number_of_each_distance(
    b: int, h: int, t: int, s: int, data: st.DataObject
) -> None:
    term = data.draw(random_terms(b, h, t))
    distances = torch.arange(s) - torch.arange(t)[:, None]
    dense = term.dense(distances).expand(b, h, t, s)
    table = term.table.expand(b, h, t, -1)
    for i in range(t):
        for j in range(s):
            clipped = max(-term.max_distance, min(term.max_distance, j - i))
            assert torch.equal(dense[:, :, i, j], table[:, :, i, clipped + term.max_distance])


@given(inputs=self_attention_inputs(), max_distance=st.integers(0, 9), seed=seeds)
def test_learned_scores_are_added_to_the_scaled_scores(
    inputs: tuple[Tensor, Tensor, Tensor], max_distance: int, seed: int
) -> None:
    q, k, v = inputs
    relative = RelativeScores(q.size(1), max_distance).double()
    with torch.no_grad():
        relative.table.copy_(random_states(q.size(1), 2 * max_distance + 1, seed=seed))
    _, weights = attend_reference(q, k, v, term=relative(q))
    for head in range(q.size(1)):
        for i in range(q.size(2)):
            scores = [
                q[:, head, i] @ k[:, head, j].T / q.size(3) ** 0.5
                + relative.table[head, max(-max_distance, min(max_distance, j - i)) + max_distance]
                for j in range(k.size(2))
            ]
            diagonal = torch.stack([score.diagonal() for score in scores], dim=-1)  # of the batch
            assert_close(weights[:, head, i], diagonal.softmax(dim=-1), rtol=0, atol=1e-12)


@given(window=windows, seed=seeds, causal=st.booleans(), per_query=st.booleans())
def test_gradients_of_the_reference_are_those_of_finite_differences(
    window: int | None, seed: int, causal: bool, per_query: bool
) -> None:
    shapes = ((2, 2, 4, 3), (2, 2, 4, 3), (2, 2, 4, 2), (2, 2, 4, 5) if per_query else (1, 2, 1, 5))
    leaves = [random_states(*shape, seed=seed + i) for i, shape in enumerate(shapes)]

    def attend(q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
        term = ScoreTerm(table)
        return attend_reference(q, k, v, causal=causal, term=term, window=window)[0]

    assert torch.autograd.gradcheck(attend, [leaf.requires_grad_() for leaf in leaves])


@given(attention=attentions(), lengths=lengths, seed=seeds, causal=st.booleans())
def test_a_sentence_gets_the_same_alone_padded_and_packed(
    attention: MultiHeadAttention, lengths: list[int], seed: int, causal: bool
) -> None:
    longest, width = max(lengths), attention.w_q.in_features
    x = random_states(len(lengths), longest, width, seed=seed)
    real = torch.arange(longest) < torch.tensor(lengths)[:, None]
    mask = None if causal else real[:, None, None]
    row = torch.cat([x[real], x[0, :1].expand(2, -1)])[None]
    ranges = packed_ranges(lengths, padding=2)
    for attend in (attend_fused, AttentionRecorder()):
        padded = attention(x, x, allowed=mask, causal=causal, attend=attend)
        packed = attention(row, row, allowed=ranges, causal=causal, attend=attend)
        assert padded.isfinite().all()
        assert packed.isfinite().all()
        start = 0
        for sentence, length in enumerate(lengths):
            own = x[sentence : sentence + 1, :length]
            alone = attention(own, own, causal=causal)
            assert_close(padded[sentence, :length], alone[0], rtol=0, atol=1e-11)
            assert_close(packed[0, start : start + length], alone[0], rtol=0, atol=1e-11)
            start += length


@given(attention=attentions(), b=st.integers(1, 3), k=st.integers(1, 4), data=st.data())
def test_cached_steps_are_the_causal_forward_through_any_search(
    attention: MultiHeadAttention, b: int, k: int, data: st.DataObject
) -> None:
    width = attention.w_q.in_features
    cache = attention.empty_cache(torch.zeros(b, 1).double(), hypotheses=k, max_steps=MAX_STEPS)
    history = BeamHistory.empty(b, k, MAX_STEPS, torch.device("cpu"))
    read = torch.zeros(b, k, 0, width, dtype=torch.float64)  # what each hypothesis has read
    for step in range(data.draw(st.integers(1, MAX_STEPS))):
        x = random_states(b, k, width, seed=data.draw(seeds))
        read = torch.cat([read, x[:, :, None]], dim=2)
        position = torch.tensor([step])
        history.extend(position)
        reach = data.draw(st.integers(step + 1, MAX_STEPS))  # may be more than needed
        at = StepContext(position, reach=reach, history=history)
        found = attention.step(x, cache, at)
        whole = read.flatten(0, 1)
        expected = attention(whole, whole, causal=True)[:, -1].view_as(found)
        assert_close(found, expected, rtol=0, atol=1e-11)
        beams = torch.tensor(data.draw(st.lists(choices(k), min_size=b, max_size=b)))
        history.select(beams)
        cache.select(beams)
        read = read.gather(1, beams[:, :, None, None].expand_as(read))


def choices(k: int) -> st.SearchStrategy[list[int]]:
    """Draw a new beam of k of the old: some repeat, some drop."""
    return st.lists(st.integers(0, k - 1), min_size=k, max_size=k)


@given(kind=kinds(), seed=seeds)
def test_steps_in_inference_mode_are_the_causal_forward(kind: Kind, seed: int) -> None:
    attention = with_random_weights(kind.make_attention(8, 2, d_k=4, d_v=4), seed=seed).eval()
    cache = attention.empty_cache(torch.zeros(2, 1), hypotheses=1, max_steps=6)
    history = BeamHistory.empty(2, 1, 6, torch.device("cpu"))
    x = random_states(2, 6, 8, seed=seed).float()
    expected = attention(x, x, causal=True)
    with torch.inference_mode():
        for step in range(6):
            position = torch.tensor([step])
            history.extend(position)
            at = StepContext(position, reach=step + 1, history=history)
            found = attention.step(x[:, step, None], cache, at)
            assert_close(found[:, 0], expected[:, step], rtol=0, atol=1e-4)


@given(attention=attentions(), t=st.integers(2, 9), seed=seeds, data=st.data())
def test_a_later_position_changes_no_earlier_one(
    attention: MultiHeadAttention, t: int, seed: int, data: st.DataObject
) -> None:
    x = random_states(1, t, attention.w_q.in_features, seed=seed)
    position = data.draw(st.integers(1, t - 1))
    changed = x.clone()
    changed[:, position] += 1
    before, after = (attention(y, y, causal=True) for y in (x, changed))
    assert torch.equal(before[:, :position], after[:, :position])


@pytest.mark.parametrize("term", TERMS)
@given(window=st.integers(1, 9), t=sizes, causal=st.booleans(), seed=seeds)
def test_a_window_allows_exactly_the_keys_at_smaller_distances(
    term: str, window: int, t: int, causal: bool, seed: int
) -> None:
    kind = Kind(term, window=window, is_rotated=True)
    attention = with_random_weights(kind.make_attention(4, 2, d_k=4, d_v=4), seed=seed)
    recorder, x = AttentionRecorder(), random_states(2, t, 4, seed=seed).float()
    attention(x, x, causal=causal, attend=recorder)
    (weights,) = recorder.weights
    for i in range(t):
        for j in range(t):
            is_near = abs(i - j) < window and not (causal and j > i)
            assert ((weights[:, :, i, j] > 0) == is_near).all()


def test_more_positions_than_a_rotation_has_are_refused() -> None:
    attention = Kind(is_rotated=True).make_attention(4, 1, d_k=4, d_v=4)
    x = torch.zeros(1, 1201, 4)
    with pytest.raises(InputError, match=r"1201 tokens is longer than model.max_positions=1200"):
        attention(x, x)
    with pytest.raises(InputError, match=r"1201 tokens is longer than model.max_positions=1200"):
        attention.empty_cache(x, hypotheses=1, max_steps=1201)


@pytest.mark.parametrize("kind", [Kind("scores"), Kind(window=3), Kind(is_rotated=True)])
def test_attention_to_another_sequence_has_no_distances(kind: Kind) -> None:
    attention = kind.make_attention(4, 1, d_k=4, d_v=4)
    with pytest.raises(AssertionError, match="no distance"):
        attention(torch.zeros(1, 3, 4), torch.zeros(1, 3, 4))


@given(kind=kinds(), seed=seeds)
def test_projections_start_with_the_same_weights_whatever_the_kind(kind: Kind, seed: int) -> None:
    plain, other = (
        Kind().make_attention(6, 2, d_k=4, d_v=4),
        kind.make_attention(6, 2, d_k=4, d_v=4),
    )
    for attention in (plain, other):
        torch.manual_seed(seed)
        initialise(attention)
    weights = other.state_dict()
    assert list(plain.state_dict()) == ["w_q.weight", "w_k.weight", "w_v.weight", "w_o.weight"]
    assert all(torch.equal(weights[name], weight) for name, weight in plain.state_dict().items())
    learned = {"scores": ["term.table"], "keys": ["term.keys"]}.get(kind.term, [])
    assert list(weights)[4:] == learned  # what is computed is not saved


def test_computed_tables_are_rebuilt_after_loading() -> None:
    kind = Kind("penalty", is_rotated=True)
    with torch.device("meta"):
        attention = kind.make_attention(6, 2, d_k=4, d_v=4)
    attention.to_empty(device="cpu")
    expected = kind.make_attention(6, 2, d_k=4, d_v=4)
    for module in attention.modules():
        if isinstance(module, (DistancePenalty, SinusoidalPositions)):
            module.rebuild_buffers()
    for ours, theirs in zip(attention.buffers(), expected.buffers(), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.exhaustive(after=2)
@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("term", TERMS)
def test_an_attention_of_any_kind_compiles_to_one_graph(term: str, is_packed: bool) -> None:
    torch.compiler.reset()
    kind = Kind(term, window=2, is_rotated=True)
    attention = with_random_weights(kind.make_attention(6, 2, d_k=4, d_v=4), seed=1)
    x = random_states(1, 7, 6, seed=2).float()
    ranges = packed_ranges([3, 4]) if is_packed else None
    compiled = torch.compile(attention, fullgraph=True, backend="aot_eager")
    assert_close(
        compiled(x, x, allowed=ranges, causal=True), attention(x, x, allowed=ranges, causal=True)
    )
