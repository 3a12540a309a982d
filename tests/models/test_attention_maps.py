import torch
from hypothesis import given
from torch import Tensor
from torch.testing import assert_close
from torch.utils.hooks import RemovableHandle

from tests.drawing import models, padded_ids
from transduce.models.transformer.model import Transformer
from transduce.text.special_ids import PAD_ID


@given(model=models(), src=padded_ids(sentences=3), tgt=padded_ids(sentences=3))
def test_maps_have_every_layer_and_head_and_no_weight_on_masked_positions(
    model: Transformer, src: Tensor, tgt: Tensor
) -> None:
    maps = model.attention_maps(src, tgt)
    assert maps.encoder is not None
    assert maps.decoder is not None
    heads = model.encoder[0].self_attention.h
    s, t = src.size(1), tgt.size(1)
    assert maps.encoder.shape == (len(model.encoder), 3, heads, s, s)
    assert maps.decoder.shape == (len(model.decoder), 3, heads, t, t)
    assert maps.cross.shape == (len(model.decoder), 3, heads, t, s)
    padding = (src == PAD_ID)[None, :, None, None, :]
    assert (maps.encoder.masked_select(padding) == 0).all()
    assert (maps.cross.masked_select(padding) == 0).all()
    assert (maps.decoder.triu(diagonal=1) == 0).all()
    for weights in (maps.encoder, maps.decoder, maps.cross):
        assert_close(weights.sum(dim=-1), torch.ones_like(weights[..., 0]), rtol=0, atol=1e-12)


@given(model=models(), src=padded_ids(sentences=2), tgt=padded_ids(sentences=2))
def test_maps_are_the_weights_that_made_the_output(
    model: Transformer, src: Tensor, tgt: Tensor
) -> None:
    """Rebuild the output of every attention from its map: swapped or stale weights would show."""
    values: list[Tensor] = []
    contexts: list[Tensor] = []
    hooks: list[RemovableHandle] = []
    attentions = [layer.self_attention for layer in model.encoder]
    for layer in model.decoder:
        attentions += [layer.self_attention, layer.cross_attention]
    for attention in attentions:
        hooks += [
            attention.w_v.register_forward_hook(lambda *call: values.append(call[2])),
            attention.w_o.register_forward_pre_hook(lambda _, inputs: contexts.append(inputs[0])),
        ]
    maps = model.attention_maps(src, tgt)
    for hook in hooks:
        hook.remove()
    assert maps.encoder is not None
    assert maps.decoder is not None
    in_order = [*maps.encoder]
    for own, cross in zip(maps.decoder, maps.cross, strict=True):
        in_order += [own, cross]
    for weights, value, context in zip(in_order, values, contexts, strict=True):
        heads = value.view(*value.shape[:2], weights.size(1), -1).transpose(1, 2)
        rebuilt = (weights @ heads).transpose(1, 2).flatten(2)
        assert_close(rebuilt, context, rtol=0, atol=1e-11)
