import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.drawing import seeds, transformer
from transduce.models.build import build_model
from transduce.models.transformer.settings import TransformerConfig
from transduce.nn.initialise import initialise


@settings(max_examples=20)
@given(
    seed=seeds,
    d_model=st.sampled_from([128, 256, 512]),
    h=st.sampled_from([4, 8]),
    d_k=st.sampled_from([16, 32, 64, 128]),
)
def test_scaled_scores_have_variance_near_1(seed: int, d_model: int, h: int, d_k: int) -> None:
    config = TransformerConfig(vocab_size=8, n_layers=1, d_model=d_model, d_ff=8, h=h, d_k=d_k)
    attention = transformer(config, seed=seed).encoder[0].self_attention
    generator = torch.Generator().manual_seed(seed)
    queries, keys = torch.randn(2, 1, 600, d_model, generator=generator)
    q = attention.w_q(queries).view(600, h, d_k)
    k, _ = attention.keys_values(keys)
    scores = torch.einsum("thd,hsd->hts", q, k[0]) / math.sqrt(d_k)
    assert scores.var().item() == pytest.approx(1, abs=0.2)


def test_embeddings_and_logits_start_with_variance_near_1() -> None:
    model = transformer(TransformerConfig(vocab_size=2000, n_layers=1))
    assert model.embedding(torch.arange(2000)).var().item() == pytest.approx(1, abs=0.02)
    states = torch.nn.functional.layer_norm(torch.randn(100, 512), (512,))
    assert model.embedding.logits(states).var().item() == pytest.approx(1, abs=0.05)


def test_matrices_start_with_the_variance_for_their_widths() -> None:
    c = TransformerConfig(vocab_size=3000, n_layers=1, d_k=16, d_v=32, positions="learned")
    weights = dict(build_model(c).named_parameters())
    glorot_ff, glorot_o = 2 / (c.d_model + c.d_ff), 2 / (c.d_model + c.h * c.d_v)
    expected = {"table": 1 / c.d_model, "embedding.weight": 1 / c.d_model}
    expected |= {f"{name}.weight": 1 / c.d_model for name in ("w_q", "w_k", "w_v")}
    expected |= {"w_o.weight": glorot_o, "w_1.weight": glorot_ff, "w_2.weight": glorot_ff}
    for ending, variance in expected.items():
        matching = [weight for name, weight in weights.items() if name.endswith(ending)]
        assert matching
        for weight in matching:
            assert weight.var().item() == pytest.approx(variance, rel=0.05), ending


def test_every_weight_is_drawn_and_biases_start_at_0() -> None:
    model = build_model(
        TransformerConfig(
            vocab_size=8, n_layers=1, norm="pre", positions="learned", attention_bias=True
        )
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(math.nan)
    initialise(model)
    for name, parameter in model.named_parameters():
        assert not parameter.isnan().any(), name
        if name.endswith("bias"):
            assert (parameter == 0).all(), name


def test_equal_seeds_give_equal_weights_and_leave_the_random_state_alone() -> None:
    config = TransformerConfig(vocab_size=8, n_layers=1)
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first, again, other = (build_model(config, seed=seed).state_dict() for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["embedding.weight"], other["embedding.weight"])
