"""Our weights under the names, and in the feature order, of Marian models in transformers.

Marian puts the sines of a position into the first half of its features and the cosines into the
second; ours alternate, as in the paper. So every feature of a layer's input or output has another
index there.

Marian's norms add 1e-5 to the variance, ours mostly 1e-6. For an input that is c times as large, an
epsilon weighs c² times less. So where our epsilon is smaller, the activations between the layers
are scaled up by a power of two: weights that write them are multiplied by that factor, weights that
read them are divided by it. Like the reordering this is exact, and nothing else changes. The
embeddings are not scaled, so the input of each stack's first norm is not either.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

MARIAN_EPSILON = 1e-5
EMBEDDING, OUTPUT_BIAS = "embedding.weight", "embedding.bias"
THEIR_EMBEDDING, THEIR_OUTPUT_BIAS = "model.shared.weight", "final_logits_bias"


class Depths(NamedTuple):
    """The numbers of layers."""

    encoder: int
    decoder: int


@dataclass(frozen=True)
class TensorMapping:
    """The two names of a tensor, and how it is converted."""

    ours: str
    theirs: str
    features: int | None  # the dimension whose order differs; None: no dimension
    power: int  # Marian's tensor is ours times the factor to this power

    @property
    def is_attention_bias(self) -> bool:
        """Whether it is one of the biases that the paper's attention lacks."""
        return "attention." in self.ours and self.ours.endswith(".bias")


def tensor_mappings(depths: Depths) -> Iterator[TensorMapping]:
    """Yield the mapping of every tensor of the layers."""
    yield from _stack("encoder", depths.encoder, _encoder_layer)
    yield from _stack("decoder", depths.decoder, _decoder_layer)


def to_marian(
    weights: Mapping[str, Tensor], *, depths: Depths, norm_epsilon: float
) -> dict[str, Tensor]:
    """Rename, reorder and scale our weights; biases that we do not have become zeros."""
    embedding = weights[EMBEDDING]
    order, factor = _halves(embedding.size(1)), _factor(norm_epsilon)
    bias = weights.get(OUTPUT_BIAS, embedding.new_zeros(embedding.size(0)))
    theirs = {THEIR_EMBEDDING: embedding[:, order], THEIR_OUTPUT_BIAS: bias[None]}
    for mapping in tensor_mappings(depths):
        if mapping.ours in weights:
            tensor = weights[mapping.ours]
        else:
            assert mapping.is_attention_bias, f"{mapping.ours} is missing"
            weight = weights[f"{mapping.ours.removesuffix('bias')}weight"]
            tensor = embedding.new_zeros(weight.size(0))
        theirs[mapping.theirs] = _reordered(tensor, order, mapping.features) * factor**mapping.power
    return theirs


def from_marian(
    weights: Mapping[str, Tensor],
    *,
    depths: Depths,
    norm_epsilon: float,
    attention_bias: bool = False,
    output_bias: bool = False,
) -> dict[str, Tensor]:
    """Undo `to_marian`; biases that are all zeros are left out unless they are asked for."""
    embedding = weights[THEIR_EMBEDDING].float()
    order, factor = _halves(embedding.size(1)).argsort(), _factor(norm_epsilon)
    ours = {EMBEDDING: embedding[:, order]}
    mappings = list(tensor_mappings(depths))
    if output_bias or weights[THEIR_OUTPUT_BIAS].any():
        ours[OUTPUT_BIAS] = weights[THEIR_OUTPUT_BIAS].flatten().float()
    biases = [weights[mapping.theirs] for mapping in mappings if mapping.is_attention_bias]
    has_bias = attention_bias or any(bool(bias.any()) for bias in biases)
    for mapping in mappings:
        if has_bias or not mapping.is_attention_bias:
            tensor = _reordered(weights[mapping.theirs].float(), order, mapping.features)
            ours[mapping.ours] = tensor * factor**-mapping.power
    return ours


def _stack(
    stack: str, n_layers: int, parts: Callable[[int, int], Iterator[TensorMapping]]
) -> Iterator[TensorMapping]:
    for layer in range(n_layers):
        # 1 where the activations before and after the layer are scaled: not at a stack's ends.
        before, after = int(layer > 0), int(layer < n_layers - 1)
        for part in parts(before, after):
            yield TensorMapping(
                f"{stack}.{layer}.{part.ours}",
                f"model.{stack}.layers.{layer}.{part.theirs}",
                part.features,
                part.power,
            )


def _encoder_layer(before: int, after: int) -> Iterator[TensorMapping]:
    yield from _attention("self_attention", "self_attn", before, memory=before)
    yield from _norm("add_norm_1.norm", "self_attn_layer_norm", 1)
    yield from _feed_forward()
    yield from _norm("add_norm_2.norm", "final_layer_norm", after)


def _decoder_layer(before: int, after: int) -> Iterator[TensorMapping]:
    yield from _attention("self_attention", "self_attn", before, memory=before)
    yield from _norm("add_norm_1.norm", "self_attn_layer_norm", 1)
    yield from _attention("cross_attention", "encoder_attn", 1, memory=0)
    yield from _norm("add_norm_2.norm", "encoder_attn_layer_norm", 1)
    yield from _feed_forward()
    yield from _norm("add_norm_3.norm", "final_layer_norm", after)


def _attention(ours: str, theirs: str, power: int, *, memory: int) -> Iterator[TensorMapping]:
    yield from _reader(f"{ours}.w_q", f"{theirs}.q_proj", power)
    yield from _reader(f"{ours}.w_k", f"{theirs}.k_proj", memory)
    yield from _reader(f"{ours}.w_v", f"{theirs}.v_proj", memory)
    yield from _writer(f"{ours}.w_o", f"{theirs}.out_proj", power)


def _feed_forward() -> Iterator[TensorMapping]:
    yield from _reader("feed_forward.w_1", "fc1", 1)
    yield from _writer("feed_forward.w_2", "fc2", 1)


def _reader(ours: str, theirs: str, power: int) -> Iterator[TensorMapping]:
    yield TensorMapping(f"{ours}.weight", f"{theirs}.weight", 1, -power)
    yield TensorMapping(f"{ours}.bias", f"{theirs}.bias", None, 0)


def _writer(ours: str, theirs: str, power: int) -> Iterator[TensorMapping]:
    yield TensorMapping(f"{ours}.weight", f"{theirs}.weight", 0, power)
    yield TensorMapping(f"{ours}.bias", f"{theirs}.bias", 0, power)


def _norm(ours: str, theirs: str, power: int) -> Iterator[TensorMapping]:
    for kind in ("weight", "bias"):
        yield TensorMapping(f"{ours}.{kind}", f"{theirs}.{kind}", 0, power)


def _factor(norm_epsilon: float) -> float:
    """Return the scale of the activations: the power of two whose square is nearest to 1e-5 / ε."""
    return 2.0 ** max(0, round(math.log(MARIAN_EPSILON / norm_epsilon, 4)))


def _halves(d_model: int) -> Tensor:
    """Return our index of each of Marian's features: the even ones, then the odd ones."""
    features = torch.arange(d_model)
    return torch.cat([features[0::2], features[1::2]])


def _reordered(tensor: Tensor, order: Tensor, features: int | None) -> Tensor:
    return tensor if features is None else tensor.index_select(features, order)
