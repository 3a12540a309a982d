"""`torch.compile` takes the training forward as one graph and computes the same."""

import shutil
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from tests.drawing import VOCAB_SIZE, random_ids, transformer
from tests.models.test_transformer import layout_of
from transduce.models.transformer.settings import TransformerConfig

needs_compiler = pytest.mark.skipif(
    shutil.which("g++") is None, reason="torch's CPU code generator needs g++"
)
exhaustive = pytest.mark.exhaustive
SHAPE = {"vocab_size": VOCAB_SIZE, "n_layers": 1, "d_model": 16, "d_ff": 32, "h": 2, "p_drop": 0.0}


@pytest.mark.parametrize(
    ("backend", "norm"),
    [
        ("aot_eager", "pre"),
        pytest.param("aot_eager", "post", marks=exhaustive),  # as packed sentences below
        pytest.param("inductor", "post", marks=[needs_compiler, exhaustive]),
        pytest.param("inductor", "pre", marks=[needs_compiler, exhaustive]),
    ],
)
def test_the_training_forward_is_one_graph(backend: str, norm: str) -> None:
    model = transformer(TransformerConfig.model_validate(SHAPE | {"norm": norm}))
    src, tgt = random_ids([7, 3, 5], seed=1), random_ids([2, 6, 4], seed=2)
    assert_same_compiled(model, lambda: model(src, tgt), backend)


@pytest.mark.exhaustive
@needs_compiler
def test_generated_code_of_a_sub_layer_computes_the_same() -> None:
    """A small graph, because generated C++ takes seconds to build."""
    layer = transformer(TransformerConfig.model_validate(SHAPE)).encoder[0]
    x = torch.randn(3, 7, 16, generator=torch.Generator().manual_seed(1))
    assert_same_compiled(layer, lambda: layer.add_norm_2(x, layer.feed_forward), "inductor")


def test_packed_sentences_are_one_graph() -> None:
    """A graph break would make training on a GPU slower without any error."""
    model = transformer(TransformerConfig.model_validate(SHAPE))
    layout = layout_of([7, 3, 5], [2, 6, 4], rest=3)
    src, tgt = random_ids([18], seed=1), random_ids([15], seed=2)
    assert_same_compiled(
        model, lambda: model.decode_states(model.encode(src, layout), tgt, layout), "aot_eager"
    )


def assert_same_compiled(model: nn.Module, forward: Callable[[], Tensor], backend: str) -> None:
    """Compare outputs and gradients."""
    torch.compiler.reset()
    results = []
    for run in (forward, torch.compile(forward, fullgraph=True, backend=backend)):
        model.zero_grad()
        logits = run()
        torch.autograd.backward(logits.square().mean())
        results.append(
            [logits.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]
        )
    for eager, graph in zip(*results, strict=True):
        torch.testing.assert_close(graph, eager, rtol=0, atol=1e-5)
