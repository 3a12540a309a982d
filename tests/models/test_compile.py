"""`torch.compile` takes the training forward as one graph and computes the same."""

import shutil

import pytest
import torch

from tests.drawing import VOCAB_SIZE, random_ids
from transduce import build_model
from transduce.config.schema import ModelConfig

needs_compiler = pytest.mark.skipif(
    shutil.which("g++") is None, reason="torch's CPU code generator needs g++"
)


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=needs_compiler)])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_training_forward_is_one_graph(backend: str, norm: str) -> None:
    torch.compiler.reset()
    config = ModelConfig.model_validate(
        {
            "vocab_size": VOCAB_SIZE,
            "n_layers": 2,
            "d_model": 16,
            "d_ff": 32,
            "h": 2,
            "p_drop": 0.0,
            "norm": norm,
        }
    )
    model = build_model(config)
    src, tgt = random_ids([7, 3, 5], seed=1), random_ids([2, 6, 4], seed=2)
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    results = []
    for run in (model, compiled):
        model.zero_grad()
        logits = run(src, tgt)
        torch.autograd.backward(logits.square().mean())
        results.append(
            [logits.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]
        )
    for eager, graph in zip(*results, strict=True):
        torch.testing.assert_close(graph, eager, rtol=0, atol=1e-5)
