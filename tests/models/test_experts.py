"""Transformers with experts: the same in every batch, balanced and compiled in training."""

import copy
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch._dynamo.utils import counters
from torch.testing import assert_close

from tests.drawing import (
    VOCAB_SIZE,
    lengths_of,
    padded_ids,
    random_ids,
    seeds,
    transformer,
    varied_configs,
)
from tests.models.test_transformer import layout_of
from transduce.config.presets import preset_named
from transduce.errors import ConfigError
from transduce.models.base import TrainingStates
from transduce.models.transformer.model import Transformer
from transduce.models.transformer.settings import TransformerConfig
from transduce.nn import mixture
from transduce.nn.feed_forward import FeedForward
from transduce.nn.mixture import MixtureOfExperts, Routing
from transduce.nn.packed_weights import can_pack, pack
from transduce.text.special_ids import PAD_ID

SHAPE: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "n_layers": 2,
    "d_model": 16,
    "d_ff": 32,
    "h": 2,
    "p_drop": 0.0,
    "experts": 4,
    "balance_weight": 0.5,
}


def model(**changes: Any) -> Transformer:
    """Build a small model whose gate prefers some experts to others."""
    built = transformer(TransformerConfig.model_validate(SHAPE | changes)).double()
    for module in mixtures_of(built):
        torch.nn.init.normal_(module.w_gate)
    return built


def mixtures_of(of: Transformer) -> list[MixtureOfExperts]:
    return [module for module in of.modules() if isinstance(module, MixtureOfExperts)]


@given(data=st.data())
def test_inference_is_the_same_alone_in_a_batch_and_with_gradients(data: st.DataObject) -> None:
    config = data.draw(varied_configs(d_model=8, experts=4, experts_per_token=2))
    built = transformer(config, seed=data.draw(seeds)).double().eval()
    src, tgt = (data.draw(padded_ids(sentences=3)) for _ in range(2))
    with_gradients = built(src, tgt)
    with torch.inference_mode():
        together = built(src, tgt)
        state = built.start(built.encode(src), hypotheses=1, max_steps=tgt.size(1))
        stepped = [
            built.step(tgt[:, [n]], state, position=torch.tensor([n]), reach=n + 1)
            for n in range(tgt.size(1))
        ]
        alone = [
            built(src[row : row + 1, :n], tgt[row : row + 1, :m])
            for row, (n, m) in enumerate(zip(lengths_of(src), lengths_of(tgt), strict=True))
        ]
    assert_close(together, with_gradients.detach(), rtol=0, atol=1e-11)
    assert_close(torch.cat(stepped, dim=1), together, rtol=0, atol=1e-11)
    for row, m in enumerate(lengths_of(tgt)):
        assert_close(alone[row], together[row : row + 1, :m], rtol=0, atol=1e-11)


def trained(
    of: Transformer, src: Tensor, tgt: Tensor, layout: Any = None
) -> tuple[TrainingStates, list[Tensor]]:
    """Run a training pass with fixed noise; return its result and all gradients."""
    of.train().zero_grad()
    torch.manual_seed(3)
    found = of.training_states(src, tgt, layout)
    assert found.auxiliary is not None
    torch.autograd.backward(found.states.square().mean() + found.auxiliary)
    return found, [p.grad.clone() for p in of.parameters() if p.grad is not None]


def test_the_auxiliary_loss_is_the_weighted_sum_of_all_layers() -> None:
    built = model()
    balances = []

    def keep(_module: Any, arguments: tuple[Tensor, Routing], _output: Tensor) -> None:
        assert arguments[1].balance is not None
        balances.append(arguments[1].balance)

    for module in mixtures_of(built):
        module.register_forward_hook(keep)
    found, gradients = trained(built, random_ids([7, 3], seed=1), random_ids([2, 6], seed=2))
    assert len(balances) == 4
    assert found.auxiliary is not None
    assert found.auxiliary.item() == pytest.approx(0.5 * sum(balances).item())  # type: ignore[union-attr]
    assert found.auxiliary.item() > 0
    assert len(gradients) == len(list(built.parameters()))


def test_only_experts_that_train_have_an_auxiliary_loss() -> None:
    src, tgt = random_ids([7, 3], seed=1), random_ids([2, 6], seed=2)
    assert model(experts=0).train().training_states(src, tgt).auxiliary is None
    assert model().eval().training_states(src, tgt).auxiliary is None


def without_noise(of: Transformer, monkeypatch: pytest.MonkeyPatch) -> Transformer:
    monkeypatch.setattr(mixture, "_noise", torch.zeros_like)
    return of


def test_packed_rows_are_balanced_as_padded_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Padding counts in neither, though there is more of it in one than in the other."""
    built = without_noise(model(expert_capacity=9.0), monkeypatch)
    src, tgt = random_ids([7, 3, 5], seed=1), random_ids([2, 6, 4], seed=2)
    layout = layout_of([7, 3, 5], [2, 6, 4], rest=3)
    rows = [torch.cat([ids[ids != PAD_ID], torch.full((3,), PAD_ID)])[None] for ids in (src, tgt)]
    padded, padded_gradients = trained(built, src, tgt)
    packed, packed_gradients = trained(built, rows[0], rows[1], layout)
    assert_close(packed.auxiliary, padded.auxiliary, rtol=0, atol=1e-12)
    assert_close(packed.states[0, :12], padded.states[tgt != PAD_ID], rtol=0, atol=1e-12)
    assert len(packed_gradients) == len(padded_gradients)


def test_padding_takes_no_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of padding would take slots first if it stood first."""
    built = without_noise(model(expert_capacity=0.25), monkeypatch).train()
    src, tgt = random_ids([1, 12], seed=1), random_ids([1, 12], seed=2)
    src[0], tgt[0] = PAD_ID, PAD_ID
    first = built.training_states(src, tgt)
    last = built.training_states(src.flip(0), tgt.flip(0))
    assert_close(first.states[1], last.states[0], rtol=0, atol=1e-12)
    monkeypatch.setattr(built, "_routing", lambda ids: Routing(ids >= 0))
    assert not torch.allclose(first.states[1], built.training_states(src, tgt).states[1])


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_compiled_layers_compute_the_same_in_one_graph_for_all_layers() -> None:
    """Also the auxiliary loss; a graph for each layer would take minutes to compile."""
    torch.compiler.reset()
    counters.clear()
    eager = model()
    compiled = copy.deepcopy(eager)
    for layer in (*compiled.encoder, *compiled.decoder):
        layer.compile(dynamic=False, fullgraph=True, backend="aot_eager")
    layout = layout_of([7, 3, 5], [2, 6, 4], rest=3)
    src, tgt = random_ids([18], seed=1), random_ids([15], seed=2)
    (found, gradients), (expected, eager_gradients) = (
        trained(each, src, tgt, layout) for each in (compiled, eager)
    )
    assert_close(found.states, expected.states, rtol=0, atol=1e-12)
    assert_close(found.auxiliary, expected.auxiliary, rtol=0, atol=1e-12)
    for ours, theirs in zip(gradients, eager_gradients, strict=True):
        assert_close(ours, theirs, rtol=0, atol=1e-12)
    assert counters["stats"]["unique_graphs"] == 2  # of the encoder and of the decoder


@pytest.mark.skipif(not can_pack(), reason="this build of torch has no oneDNN")
def test_packing_for_the_cpu_leaves_the_experts() -> None:
    built = model(attention_score="additive").float().eval()
    src, tgt = random_ids([7, 3], seed=1), random_ids([6, 6], seed=2)
    packed = copy.deepcopy(built)
    pack(packed)
    with torch.inference_mode():
        assert_close(packed(src, tgt), built(src, tgt), rtol=1e-4, atol=1e-4)


def test_which_layers_have_experts() -> None:
    layers = model(n_layers=3, experts_every=2).encoder
    kinds = [FeedForward, MixtureOfExperts, FeedForward]
    assert [type(layer.feed_forward) for layer in layers] == kinds


def test_more_experts_for_a_token_than_there_are_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match=r"experts_per_token=2 is more than model\.experts=1"):
        preset_named("tiny").with_changes({"model": {"experts": 1}})


@pytest.mark.parametrize(
    ("changes", "can"),
    [
        ({"experts": 0}, {"ctranslate2", "huggingface"}),
        ({"experts": 4}, set()),
        ({"experts": 0, "attention_score": "unscaled"}, set()),
        ({"experts": 0, "attention_score": "additive"}, set()),
    ],
)
def test_abilities(changes: dict[str, Any], can: set[str]) -> None:
    abilities = model(**changes).abilities
    assert abilities.exports == can
    assert abilities.packed_sequences == (changes.get("attention_score") != "additive")
    assert abilities.recorded_step
    assert abilities.packed_weights
