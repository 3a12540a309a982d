"""Heads that share keys and values compute what repeated heads would, and keep less."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tests.drawing import VOCAB_SIZE, random_ids, seeds, transformer
from tests.nn.distances import packed_ranges, random_states
from tests.nn.shared_heads import folded, grouped_attentions, written_out
from transduce.analysis.cost import cost_of
from transduce.config.presets import preset_named
from transduce.errors import ConfigError
from transduce.models.transformer.settings import TransformerConfig
from transduce.nn.mixers.attention import AttentionRecorder, MultiHeadAttention
from transduce.nn.step_state import BeamHistory, StepContext


@given(attention=grouped_attentions(), t=st.integers(1, 7), causal=st.booleans(), seed=seeds)
def test_it_is_attention_with_repeated_heads_forward_and_backward(
    attention: MultiHeadAttention, t: int, causal: bool, seed: int
) -> None:
    plain, x = written_out(attention), random_states(2, t, 6, seed=seed)
    found, expected = (one(x, x, causal=causal) for one in (attention, plain))
    assert_close(found, expected, rtol=0, atol=1e-12)
    upstream = random_states(*found.shape, seed=seed + 1)
    torch.autograd.backward([found, expected], [upstream, upstream])
    for name, mine in attention.named_parameters():
        its = plain.get_parameter(name).grad
        assert mine.grad is not None
        assert its is not None
        if name.startswith(("w_k", "w_v")):
            its = folded(its, kv_heads=attention.kv_heads, h=attention.h)
        assert_close(mine.grad, its, rtol=0, atol=1e-10)


@given(attention=grouped_attentions(), seed=seeds)
def test_the_weights_shown_are_those_of_repeated_heads(
    attention: MultiHeadAttention, seed: int
) -> None:
    x, shown = random_states(1, 5, 6, seed=seed), []
    for one in (attention, written_out(attention)):
        recorder = AttentionRecorder()
        one(x, x, attend=recorder)
        shown += recorder.weights
    assert_close(shown[0], shown[1], rtol=0, atol=1e-12)


@given(attention=grouped_attentions(), causal=st.booleans(), seed=seeds)
def test_a_packed_row_is_its_sentences(
    attention: MultiHeadAttention, causal: bool, seed: int
) -> None:
    lengths = [3, 1, 5]
    row = random_states(1, sum(lengths), 6, seed=seed)
    packed = attention(row, row, allowed=packed_ranges(lengths), causal=causal)
    alone = [attention(x, x, causal=causal) for x in torch.split(row, lengths, dim=1)]
    assert_close(packed, torch.cat(alone, dim=1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("inference", [False, True])
@given(attention=grouped_attentions(), seed=seeds)
def test_cached_steps_are_the_causal_forward(
    attention: MultiHeadAttention, inference: bool, seed: int
) -> None:
    b, k, steps = 2, 3, 4
    x = random_states(b * k, steps, 6, seed=seed)
    expected = attention(x, x, causal=True).view(b, k, steps, 6)
    cache = attention.empty_cache(x.view(b, -1), hypotheses=k, max_steps=steps)
    assert cache.keys.shape == (b, attention.kv_heads, steps, k, attention.d_k)
    history = BeamHistory.empty(b, k, steps, torch.device("cpu"))
    with torch.inference_mode(inference):
        for step in range(steps):
            position = torch.tensor([step])
            history.extend(position)
            at = StepContext(position, reach=steps, history=history)
            found = attention.step(x[:, step].view(b, k, 6), cache, at)
            assert_close(found, expected[:, :, step], rtol=0, atol=1e-11)


def config(**changes: object) -> TransformerConfig:
    sizes = {"vocab_size": VOCAB_SIZE, "n_layers": 1, "d_model": 16, "d_ff": 24, "h": 4}
    return TransformerConfig.model_validate(sizes | {"max_positions": 32} | changes)


def test_as_many_heads_as_queries_is_the_papers_model_to_the_bit() -> None:
    src, tgt = random_ids([5, 3], seed=1), random_ids([4, 6], seed=2)
    plain, named = (transformer(c).eval() for c in (config(), config(kv_heads=4)))
    assert torch.equal(plain(src, tgt), named(src, tgt))


@pytest.mark.parametrize("kv_heads", [1, 2])
def test_a_search_keeps_less_and_describe_says_so(kv_heads: int) -> None:
    whole, shared = (cost_of(config(**c), length=8) for c in ({}, {"kv_heads": kv_heads}))
    share = kv_heads / 4
    slot = 4  # bytes of the table that says whose the keys are
    assert shared.cache.per_tgt_token - slot == (whole.cache.per_tgt_token - slot) * share
    # Each of three attentions has two matrices of keys and values.
    assert whole.parameters - shared.parameters == 3 * 2 * 16 * 16 * (1 - share)
    assert shared.operations_per_token < whole.operations_per_token


def test_a_number_that_does_not_divide_the_heads_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"model\.kv_heads=3 does not divide model\.h=4; .*1, 2"):
        preset_named("tiny").with_changes({"model": {"kv_heads": 3}})
