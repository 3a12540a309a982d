"""Our weights by the names, and in the order of features, that Marian models have in transformers.

Marian keeps the sines of a position in the first half of its features and the cosines in the
second; ours alternate, as the paper's do. So everything that is a feature of a layer's input or
output stands in another order there.

Its norms add 1e-5 to the variance, ours mostly 1e-6. A norm whose input is c times as large adds as
good as c² times less. So where ours add less, what flows between the layers is made larger by a
power of two: what writes to it by that factor, what reads from it by its inverse. This is exact, as
the other order is, and no other number changes. The embeddings stay: what flows into the first
norms is as it was.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

MARIAN_EPSILON = 1e-5
EMBEDDING, OUTPUT_BIAS = "embedding.weight", "embedding.bias"
THEIR_EMBEDDING, THEIR_OUTPUT_BIAS = "model.shared.weight", "final_logits_bias"


@dataclass(frozen=True)
class Renamed:
    """A tensor's two names, and what is done to it."""

    ours: str
    theirs: str
    features: int | None  # the dimension that counts features
    power: int  # of the factor that Marian's is larger by

    @property
    def is_attention_bias(self) -> bool:
        """Whether the paper has no such tensor."""
        return "attention." in self.ours and self.ours.endswith(".bias")


def renamed(n_layers: int) -> Iterator[Renamed]:
    """Name every tensor of the layers."""
    for stack in ("encoder", "decoder"):
        for layer in range(n_layers):
            names = f"{stack}.{layer}", f"model.{stack}.layers.{layer}"
            before, after = int(layer > 0), int(layer < n_layers - 1)  # 1: what flows is larger
            parts = _encoder_layer if stack == "encoder" else _decoder_layer
            for part in parts(before, after):
                yield Renamed(
                    f"{names[0]}.{part.ours}",
                    f"{names[1]}.{part.theirs}",
                    part.features,
                    part.power,
                )


def _encoder_layer(before: int, after: int) -> Iterator[Renamed]:
    yield from _attention("self_attention", "self_attn", before, memory=before)
    yield from _norm("add_norm_1.norm", "self_attn_layer_norm", 1)
    yield from _feed_forward()
    yield from _norm("add_norm_2.norm", "final_layer_norm", after)


def _decoder_layer(before: int, after: int) -> Iterator[Renamed]:
    yield from _attention("self_attention", "self_attn", before, memory=before)
    yield from _norm("add_norm_1.norm", "self_attn_layer_norm", 1)
    yield from _attention("cross_attention", "encoder_attn", 1, memory=0)
    yield from _norm("add_norm_2.norm", "encoder_attn_layer_norm", 1)
    yield from _feed_forward()
    yield from _norm("add_norm_3.norm", "final_layer_norm", after)


def _attention(ours: str, theirs: str, flow: int, *, memory: int) -> Iterator[Renamed]:
    yield from _reader(f"{ours}.w_q", f"{theirs}.q_proj", flow)
    yield from _reader(f"{ours}.w_k", f"{theirs}.k_proj", memory)
    yield from _reader(f"{ours}.w_v", f"{theirs}.v_proj", memory)
    yield from _writer(f"{ours}.w_o", f"{theirs}.out_proj", flow)


def _feed_forward() -> Iterator[Renamed]:
    yield from _reader("feed_forward.w_1", "fc1", 1)
    yield from _writer("feed_forward.w_2", "fc2", 1)


def _reader(ours: str, theirs: str, flow: int) -> Iterator[Renamed]:
    yield Renamed(f"{ours}.weight", f"{theirs}.weight", 1, -flow)
    yield Renamed(f"{ours}.bias", f"{theirs}.bias", None, 0)


def _writer(ours: str, theirs: str, flow: int) -> Iterator[Renamed]:
    yield Renamed(f"{ours}.weight", f"{theirs}.weight", 0, flow)
    yield Renamed(f"{ours}.bias", f"{theirs}.bias", 0, flow)


def _norm(ours: str, theirs: str, flow: int) -> Iterator[Renamed]:
    for kind in ("weight", "bias"):
        yield Renamed(f"{ours}.{kind}", f"{theirs}.{kind}", 0, flow)


def to_marian(
    weights: Mapping[str, Tensor], *, n_layers: int, norm_epsilon: float
) -> dict[str, Tensor]:
    """Rename, reorder and scale our weights; the biases that we lack are zeros."""
    embedding = weights[EMBEDDING]
    order, factor = _halves(embedding.size(1)), _factor(norm_epsilon)
    bias = weights.get(OUTPUT_BIAS, embedding.new_zeros(embedding.size(0)))
    theirs = {THEIR_EMBEDDING: embedding[:, order], THEIR_OUTPUT_BIAS: bias[None]}
    for name in renamed(n_layers):
        if name.ours in weights:
            tensor = weights[name.ours]
        else:
            assert name.is_attention_bias, f"{name.ours} is missing"
            tensor = embedding.new_zeros(weights[f"{name.ours.removesuffix('bias')}weight"].size(0))
        theirs[name.theirs] = _reordered(tensor, order, name.features) * factor**name.power
    return theirs


def from_marian(
    weights: Mapping[str, Tensor],
    *,
    n_layers: int,
    norm_epsilon: float,
    attention_bias: bool = False,
    output_bias: bool = False,
) -> dict[str, Tensor]:
    """Do the opposite; biases that are all zeros stay out unless they are asked for."""
    embedding = weights[THEIR_EMBEDDING].float()
    order, factor = _halves(embedding.size(1)).argsort(), _factor(norm_epsilon)
    ours = {EMBEDDING: embedding[:, order]}
    names = list(renamed(n_layers))
    if output_bias or weights[THEIR_OUTPUT_BIAS].any():
        ours[OUTPUT_BIAS] = weights[THEIR_OUTPUT_BIAS].flatten().float()
    biases = [weights[name.theirs] for name in names if name.is_attention_bias]
    has_bias = attention_bias or any(bool(bias.any()) for bias in biases)
    for name in names:
        if has_bias or not name.is_attention_bias:
            tensor = _reordered(weights[name.theirs].float(), order, name.features)
            ours[name.ours] = tensor * factor**-name.power
    return ours


def _factor(norm_epsilon: float) -> float:
    """Return the power of two whose square is nearest to how much less our norms add."""
    return 2.0 ** max(0, round(math.log(MARIAN_EPSILON / norm_epsilon, 4)))


def _halves(d_model: int) -> Tensor:
    """Return which of our features each of Marian's is: the even ones, then the odd ones."""
    features = torch.arange(d_model)
    return torch.cat([features[0::2], features[1::2]])


def _reordered(tensor: Tensor, order: Tensor, features: int | None) -> Tensor:
    return tensor if features is None else tensor.index_select(features, order)
