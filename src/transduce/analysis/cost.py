"""What a model costs: parameters, operations and memory, counted on the model itself.

The model is built of torch's fake tensors, which have shapes and no numbers; torch then counts what
a forward pass over one pair of sentences multiplies and what it keeps for the backward pass.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from transduce.config.schema import ModelConfig
from transduce.models.build import assemble
from transduce.models.transformer import Transformer
from transduce.nn.sublayer import AddNorm


@dataclass(frozen=True)
class Part:
    """One kind of part, summed over the layers that have it."""

    name: str
    depth: int
    parameters: int
    operations_per_token: float


@dataclass(frozen=True)
class Cost:
    """The cost of a model on pairs of sentences of equal length."""

    parts: list[Part]  # those at depth 0 add up to the whole
    parameters: int
    operations_per_token: float
    activation_bytes_per_token: float
    cache_bytes_per_token: float

    @property
    def weight_bytes(self) -> int:
        """The weights in float32."""
        return 4 * self.parameters

    @property
    def training_bytes(self) -> int:
        """Weights, gradients and Adam's two moments in float32."""
        return 4 * self.weight_bytes


def cost_of(config: ModelConfig, *, length: int) -> Cost:
    """Count the cost of one source and one target token in sentences of `length` tokens."""
    with FakeTensorMode():
        model = assemble(config)
        ids = torch.zeros(1, length, dtype=torch.long)
        operations = {name: count / length for name, count in _operations(model, ids).items()}
        return Cost(
            parts=list(_parts(model, operations)),
            parameters=_size(model),
            operations_per_token=operations["Transformer"],
            activation_bytes_per_token=_saved_bytes(model, ids) / length,
            cache_bytes_per_token=_cache_bytes(model, ids) / length,
        )


def _operations(model: Transformer, ids: Tensor) -> dict[str, int]:
    """Count by module; attention as written, since torch does not count its fused CPU kernel."""
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(ids, ids)
    return {name: sum(counts.values()) for name, counts in counter.get_flop_counts().items()}


def _parts(model: Transformer, operations: dict[str, float]) -> Iterator[Part]:
    left = operations["Transformer"]
    for name, module in model.named_children():
        if isinstance(module, nn.ModuleList):
            layers = [operations[f"Transformer.{name}.{index}"] for index in range(len(module))]
            left -= sum(layers)
            yield Part(
                f"{name}, {len(module)} layer{'s' * (len(module) > 1)}",
                0,
                _size(module),
                sum(layers),
            )
            yield from _layer_parts(name, module, operations)
        elif _size(module):
            yield Part(name.replace("_", "-"), 0, _size(module), 0.0)
    yield Part("output (the embedding again)", 0, 0, left)


def _layer_parts(name: str, layers: nn.ModuleList, operations: dict[str, float]) -> Iterator[Part]:
    parameters: dict[str, int] = {}
    totals: dict[str, float] = {}
    for index, layer in enumerate(layers):
        for child_name, child in layer.named_children():
            kind = child_name.rstrip("_123").replace("_", "-")
            parameters[kind] = parameters.get(kind, 0) + _size(child)
            # An add & norm calls its sub-layer, whose operations are counted there.
            if not isinstance(child, AddNorm):
                here = operations[f"Transformer.{name}.{index}.{child_name}"]
                totals[kind] = totals.get(kind, 0.0) + here
    for kind, size in parameters.items():
        yield Part(kind, 1, size, totals.get(kind, 0.0))


def _size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _saved_bytes(model: Transformer, ids: Tensor) -> int:
    """Sum what a forward pass keeps for the backward pass, besides the weights."""
    weights = {_storage(parameter) for parameter in model.parameters()}
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        if _storage(tensor) not in weights:
            kept[_storage(tensor)] = tensor
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        model(ids, ids)
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


def _storage(tensor: Tensor) -> int:
    identity: int = tensor.untyped_storage()._cdata  # a fake tensor has no address to go by
    return identity


def _cache_bytes(model: Transformer, ids: Tensor) -> int:
    """Sum what a search keeps of a target sentence of this length; the source takes the same."""
    state = model.start(model.encode(ids), hypotheses=1, max_steps=ids.size(1))
    return state.keys.nbytes + state.values.nbytes
