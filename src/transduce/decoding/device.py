"""What translations are computed on, and how a model is made ready for it."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal

import torch

from transduce.errors import InputError
from transduce.models.transformer import Transformer
from transduce.nn.packed import can_pack, pack

Precision = Literal["float32", "bf16", "int8"]

LITTLE = 10**8
"""Where a step multiplies less than this for its scores, waking a second thread costs more than it
saves: on two cores, up to 12 sentences of the small preset with a beam of 4, or 1 of base."""


def choose_device(name: str) -> torch.device:
    """Take a device by its name; `auto` is a CUDA device if there is one, else the CPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as unknown:
        raise InputError(f"no device {name!r}: use auto, cpu, cuda, cuda:N or mps") from unknown
    if device.type not in ("cpu", "cuda", "mps"):
        raise InputError(f"device {name!r}: use auto, cpu, cuda, cuda:N or mps")
    if device.type == "cuda":
        count = torch.cuda.device_count()
        if (device.index or 0) >= count:
            raise InputError(f"device {name}: this machine has {count} CUDA devices; use auto")
        # cuDNN's attention plans anew for every shape of batch, and no two are alike.
        torch.backends.cuda.enable_cudnn_sdp(False)
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise InputError("device mps: this machine has none; use auto or cpu")
    return device


def on_device(device: torch.device) -> AbstractContextManager[object]:
    """Make a CUDA device the one that kernels and streams are started on."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


@contextmanager
def as_many_threads_as_pay(model: object, rows: int) -> Iterator[None]:
    """Let one thread compute steps of so few rows that several would mostly wait for each other."""
    before = torch.get_num_threads()
    is_little = isinstance(model, Transformer) and rows * model.embedding.weight.numel() < LITTLE
    torch.set_num_threads(1 if is_little else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def made_ready(model: Transformer, *, precision: Precision) -> Transformer:
    """Change a model, where it is, into one that only translates, as fast as it can."""
    if precision not in ("float32", "bf16"):
        raise InputError(f"precision={precision!r}: use float32 or bf16; int8 is CTranslate2's")
    model = model.eval().to(torch.bfloat16 if precision == "bf16" else torch.float32)
    if precision == "float32" and model.projection.device.type == "cpu" and can_pack():
        pack(model)
    return model
