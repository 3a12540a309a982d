"""The cost of a model: parameters, operations and memory, measured on the model itself.

The model is built from torch's fake tensors, which have shapes but no data. torch then counts the
operations of a forward pass over one pair of sentences, and what it keeps for the backward pass.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import transduce.nn.mixers.state_spaces.scan  # noqa: F401  makes torch.ops.transduce.scan
from transduce.config.schema import ModelConfig
from transduce.models.base import Seq2Seq
from transduce.models.build import assemble
from transduce.nn.add_norm import AddNorm
from transduce.nn.mixture import MixtureOfExperts
from transduce.text.special_ids import EOS_ID

BACKWARD_TOO = 3
"""A backward pass has twice the operations of the forward pass."""


@dataclass(frozen=True)
class Part:
    """One part of the model, such as self-attention, summed over all layers."""

    name: str
    depth: int  # 0, or 1 for a part of the layers above it
    parameters: int
    operations_per_token: float


@dataclass(frozen=True)
class Cost:
    """The cost of a model on pairs of sentences of equal length."""

    parts: list[Part]  # those of depth 0 add up to the whole
    parameters: int
    used_parameters: int  # by one token; fewer where it uses some of several experts
    operations_per_token: float  # forward
    training_operations_per_token: float  # forward and backward, and slots that no token fills
    activation_bytes_per_token: float
    cache: "CacheCost"

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights in float32."""
        return 4 * self.parameters

    @property
    def training_bytes(self) -> int:
        """Bytes of weights, gradients and Adam's two moments in float32."""
        return 4 * self.weight_bytes


@dataclass(frozen=True)
class CacheCost:
    """The memory of a search state, in bytes of float32."""

    per_src_token: int
    per_tgt_token: int  # of each hypothesis
    per_hypothesis: int  # of any length


def cost_of(config: ModelConfig, *, length: int) -> Cost:
    """Measure the cost per source and target token, in sentences of `length` tokens."""
    try:
        with FakeTensorMode():
            return _measured(config, length)
    except (DataDependentOutputException, DynamicOutputShapeException):
        return _measured(config, length)  # shapes depend on the data: compute with real tensors


def _measured(config: ModelConfig, length: int) -> Cost:
    model = assemble(config)
    ids = torch.full((1, length), EOS_ID)
    counted, of_experts = _operations(model, ids)
    operations = {name: count / length for name, count in counted.items()}
    forward = operations[type(model).__name__]
    empty = (_slots_per_choice(model) - 1) * of_experts / length
    return Cost(
        parts=list(_parts(model, operations)),
        parameters=_size(model),
        used_parameters=_size(model) - _idle_parameters(model),
        operations_per_token=forward,
        training_operations_per_token=BACKWARD_TOO * (forward + empty),
        activation_bytes_per_token=_saved_bytes(model, ids) / length,
        cache=_cache_cost(model),
    )


def _operations(model: Seq2Seq, ids: Tensor) -> tuple[dict[str, int], int]:
    """Count operations by module, and those of experts; attention is not fused.

    torch does not count fused attention on a CPU. In inference mode experts compute no empty slots.
    """
    uncounted = {
        torch.ops.aten.mkldnn_rnn_layer: _recurrent_operations,
        torch.ops.transduce.expert_linear: _expert_operations,
        torch.ops.transduce.scan: _scan_operations,
        torch.ops.aten._fft_r2c: _fourier_operations,
        torch.ops.aten._fft_c2r: _fourier_operations,
    }
    counting = FlopCounterMode(display=False, custom_mapping=uncounted)
    model.eval().requires_grad_(False)
    with sdpa_kernel(SDPBackend.MATH), torch.no_grad(), counting as counter:
        model(ids, ids)
    model.train().requires_grad_(True)
    counts = counter.get_flop_counts()
    of_experts = counts["Global"].get(torch.ops.transduce.expert_linear, 0)
    return {name: sum(of_module.values()) for name, of_module in counts.items()}, of_experts


def _slots_per_choice(model: nn.Module) -> float:
    """Return how many slots of experts are computed in training for each choice of a token."""
    capacities = {m.capacity for m in model.modules() if isinstance(m, MixtureOfExperts)}
    return max(capacities, default=1.0)


def _recurrent_operations(
    x: list[int], from_input: list[int], from_state: list[int], *_: object, **__: object
) -> int:
    """Count the products of a layer of an LSTM, from the shapes of its input and its weights."""
    return 2 * math.prod(x[:-1]) * (math.prod(from_input) + math.prod(from_state))


def _expert_operations(rows: list[int], matrices: list[int], *_: object, **__: object) -> int:
    """Count the products of tokens with the matrices of their experts, one matrix a row."""
    return 2 * rows[0] * matrices[1] * matrices[2]


def _scan_operations(decay: list[int], *_: object, **__: object) -> int:
    """Count a product and a sum for each number of each state."""
    return 2 * math.prod(decay)


def _fourier_operations(
    x: list[int], *_: object, out_shape: list[int] | None = None, **__: object
) -> int:
    """Count 5/2 · n · log2(n) for a real transform of n numbers, along the last dimension."""
    assert out_shape is not None, "torch gives the shape of the result"
    n = max(x[-1], out_shape[-1])
    return round(2.5 * math.prod(x[:-1]) * n * math.log2(max(n, 2)))


def _parts(model: Seq2Seq, operations: dict[str, float]) -> Iterator[Part]:
    whole = type(model).__name__
    rest = operations[whole]
    for name, module in model.named_children():
        if isinstance(module, nn.ModuleList):
            layers = [operations.get(f"{whole}.{name}.{i}", 0.0) for i in range(len(module))]
            rest -= sum(layers)
            yield Part(
                f"{name}, {len(module)} layer{'s' * (len(module) > 1)}",
                0,
                _size(module),
                sum(layers),
            )
            yield from _layer_parts(f"{whole}.{name}", module, operations)
        elif _size(module):
            own = operations.get(f"{whole}.{name}", 0.0)
            rest -= own
            yield Part(name.replace("_", "-"), 0, _size(module), own)
    yield Part("output and the rest", 0, 0, rest)


def _layer_parts(path: str, layers: nn.ModuleList, operations: dict[str, float]) -> Iterator[Part]:
    parameters: dict[str, int] = {}
    totals: dict[str, float] = {}
    for index, layer in enumerate(layers):
        for child_name, child in layer.named_children():
            kind = child_name.rstrip("_123").replace("_", "-")
            parameters[kind] = parameters.get(kind, 0) + _size(child)
            # An add & norm calls its sub-layer, whose operations are counted under its own name.
            if not isinstance(child, AddNorm):
                own = operations.get(f"{path}.{index}.{child_name}", 0.0)
                totals[kind] = totals.get(kind, 0.0) + own
    for kind, size in parameters.items():
        yield Part(kind, 1, size, totals.get(kind, 0.0))


def _size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _idle_parameters(model: nn.Module) -> int:
    mixtures = (module for module in model.modules() if isinstance(module, MixtureOfExperts))
    return sum(mixture.idle_parameters for mixture in mixtures)


def _saved_bytes(model: Seq2Seq, ids: Tensor) -> int:
    """Return the bytes that a forward pass keeps for the backward pass, besides the weights."""
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
    identity: int = tensor.untyped_storage()._cdata  # a fake tensor has no address
    return identity


def _cache_cost(model: Seq2Seq) -> CacheCost:
    """Measure how a search state grows with the source and with the target."""

    def state_bytes(memory: object, tgt_tokens: int) -> int:
        state = model.start(memory, hypotheses=1, max_steps=tgt_tokens)
        return sum(tensor.nbytes for tensor in tensors_of(state))

    with torch.no_grad():
        one, two = (model.encode(torch.full((1, src_tokens), EOS_ID)) for src_tokens in (1, 2))
        smallest = state_bytes(one, 1)
        per_src, per_tgt = state_bytes(two, 1) - smallest, state_bytes(one, 2) - smallest
    return CacheCost(per_src, per_tgt, smallest - per_src - per_tgt)


def tensors_of(value: object) -> Iterator[Tensor]:
    """Yield all tensors of a state, which consists of dataclasses and tuples."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from tensors_of(part)
    elif is_dataclass(value):
        for field in fields(value):
            yield from tensors_of(getattr(value, field.name))
