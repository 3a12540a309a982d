"""`torch.compile` takes the training forward as one graph and computes the same."""

import shutil
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from tests.drawing import VOCAB_SIZE, random_ids
from tests.models.test_transformer import layout_of
from transduce import build_model
from transduce.config.schema import ModelConfig

needs_compiler = pytest.mark.skipif(
    shutil.which("g++") is None, reason="torch's CPU code generator needs g++"
)
SHAPE = {"vocab_size": VOCAB_SIZE, "n_layers": 2, "d_model": 16, "d_ff": 32, "h": 2, "p_drop": 0.0}


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=needs_compiler)])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_training_forward_is_one_graph(backend: str, norm: str) -> None:
    model = build_model(ModelConfig.model_validate(SHAPE | {"norm": norm}))
    src, tgt = random_ids([7, 3, 5], seed=1), random_ids([2, 6, 4], seed=2)
    assert_same_compiled(model, lambda: model(src, tgt), backend)


def test_a_row_of_sentences_is_one_graph() -> None:
    """On a GPU, what is not compiled would be slower, and nobody would know."""
    model = build_model(ModelConfig.model_validate(SHAPE))
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
