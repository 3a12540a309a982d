"""Models prepared for inference, and how many threads a step should use."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, get_args

import torch

from transduce.errors import InputError
from transduce.hardware.allocator import bound_compiled_products, reuse_freed_blocks
from transduce.models.base import Seq2Seq
from transduce.nn.int8_weights import can_quantize, quantize
from transduce.nn.packed_weights import can_pack, pack
from transduce.nn.weight_norm import fold_weight_norm

Precision = Literal["float32", "bf16", "int8"]

FEW_MULTIPLICATIONS = 10**8
"""If the logits of a step take fewer multiplications, waking a second thread costs more than it
saves: on two cores, up to 12 sentences of the small preset with a beam of 4, or 1 of base."""


def prepare_for_inference(model: Seq2Seq, *, precision: Precision) -> Seq2Seq:
    """Convert a model in place for fast inference; it cannot be trained afterwards."""
    if precision not in get_args(Precision):
        raise InputError(f"precision={precision!r}: use one of {', '.join(get_args(Precision))}")
    if precision == "int8":
        _check_int8(model)
    fold_weight_norm(model)
    model = model.eval().to(torch.float32)
    if precision == "bf16":
        _cast_to_bfloat16(model)
    is_on_cpu = model.projection.device.type == "cpu"
    if is_on_cpu:
        reuse_freed_blocks()
        bound_compiled_products()
    if precision == "int8":
        quantize(model)
    if precision == "float32" and is_on_cpu and model.abilities.packed_weights and can_pack():
        pack(model)
    return model


def _check_int8(model: Seq2Seq) -> None:
    """Raise unless torch can compute with this model in int8."""
    instead = "use float32, or the engine ctranslate2"
    if model.projection.device.type != "cpu":
        raise InputError(f"precision='int8' with torch is for the CPU: {instead}, or bf16")
    if not model.abilities.packed_weights:
        name = type(model).__name__
        raise InputError(f"a {name} model has no int8 form: use float32")
    if not can_quantize():
        raise InputError(
            f"precision='int8' needs a processor with the instructions VNNI, and oneDNN: {instead}"
        )


def _cast_to_bfloat16(model: Seq2Seq) -> None:
    """Cast a model in place, except for what its modules name in `float32_parameters`."""
    kept = [
        (parameter, parameter.data)
        for module in model.modules()
        for parameter in map(module.get_parameter, getattr(module, "float32_parameters", ()))
    ]
    model.to(torch.bfloat16)
    for parameter, values in kept:
        parameter.data = values


@contextmanager
def threads_for(multiplications: int | None) -> Iterator[None]:
    """Use one thread for a small step, else all; None: the number is not known, use all."""
    before = torch.get_num_threads()
    is_little = multiplications is not None and multiplications < FEW_MULTIPLICATIONS
    torch.set_num_threads(1 if is_little else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
