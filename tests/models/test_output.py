"""The output projection: its matrix and its bias, in the logits and in the loss."""

from typing import Any

import pytest
import torch

from tests.drawing import transformer
from transduce.models.transformer.settings import TransformerConfig
from transduce.training.step.loss import smoothed_loss


@pytest.mark.parametrize("tied", [True, False])
def test_the_loss_sees_the_bias_and_gives_it_its_gradient(tied: bool) -> None:
    config = TransformerConfig(
        vocab_size=40, n_layers=1, d_model=16, d_ff=16, h=2, output_bias=True, tied_output=tied
    )
    model = transformer(config).eval()
    assert model.embedding.bias is not None
    torch.nn.init.normal_(model.embedding.bias, generator=torch.Generator().manual_seed(1))
    ids = torch.randint(4, 40, (3, 9), generator=torch.Generator().manual_seed(2))
    src, tgt_in, tgt_out = ids[:, :4], ids[:, :8], ids[:, 1:]
    memory = model.encode(src)
    states, logits = model.decode_states(memory, tgt_in), model.decode(memory, tgt_in)
    torch.testing.assert_close(states @ model.projection.T, logits)

    learned = [model.embedding.bias, model.embedding.output]
    loss, _ = smoothed_loss(states, model.projection, tgt_out, eps_ls=0.1)
    found = torch.autograd.grad(loss, learned, retain_graph=True)
    plain = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), tgt_out.flatten(), label_smoothing=0.1, reduction="sum"
    )
    expected = torch.autograd.grad(plain, learned)
    torch.testing.assert_close(loss, plain)
    torch.testing.assert_close(found, expected)


def test_an_output_of_its_own_is_no_embedding() -> None:
    shape: dict[str, Any] = {"vocab_size": 40, "n_layers": 1, "d_model": 16, "d_ff": 16, "h": 2}
    tied, own = (transformer(TransformerConfig(**shape, tied_output=t)) for t in (True, False))
    assert tied.projection is tied.embedding.weight
    count = [sum(p.numel() for p in model.parameters()) for model in (tied, own)]
    assert count[1] - count[0] == 40 * 16
    ids = torch.randint(4, 40, (2, 5), generator=torch.Generator().manual_seed(1))
    before = own.eval().encode(ids).states
    with torch.no_grad():
        own.projection.zero_()
    assert torch.equal(own.encode(ids).states, before)
    assert not own(ids, ids).any()
