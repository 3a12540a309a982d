"""A bias for each vocabulary entry, in the logits and in the states that the loss takes."""

import torch

from tests.drawing import transformer
from transduce.models.transformer.settings import TransformerConfig
from transduce.training.step.loss import smoothed_loss


def test_the_loss_sees_the_bias_and_gives_it_its_gradient() -> None:
    config = TransformerConfig(
        vocab_size=40, n_layers=1, d_model=16, d_ff=16, h=2, output_bias=True
    )
    model = transformer(config).eval()
    assert model.embedding.bias is not None
    torch.nn.init.normal_(model.embedding.bias, generator=torch.Generator().manual_seed(1))
    ids = torch.randint(4, 40, (3, 9), generator=torch.Generator().manual_seed(2))
    src, tgt_in, tgt_out = ids[:, :4], ids[:, :8], ids[:, 1:]
    memory = model.encode(src)
    states, logits = model.decode_states(memory, tgt_in), model.decode(memory, tgt_in)
    torch.testing.assert_close(states @ model.projection.T, logits)

    loss, _ = smoothed_loss(states, model.projection, tgt_out, eps_ls=0.1)
    [found] = torch.autograd.grad(loss, [model.embedding.bias], retain_graph=True)
    plain = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), tgt_out.flatten(), label_smoothing=0.1, reduction="sum"
    )
    [expected] = torch.autograd.grad(plain, [model.embedding.bias])
    torch.testing.assert_close(loss, plain)
    torch.testing.assert_close(found, expected)
