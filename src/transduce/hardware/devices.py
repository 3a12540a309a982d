"""Which device to compute on."""

from contextlib import AbstractContextManager, nullcontext

import torch

from transduce.errors import InputError, counted


def choose_device(
    name: str, *, local_rank: int = 0, option: str = "device", mps: bool = False
) -> torch.device:
    """Return the device of this name; `auto` takes a CUDA device if there is one, else the CPU.

    With `mps`, `auto` also takes Apple's GPU. `cuda` alone is this process's own GPU among those of
    the machine. `option` names the setting in messages.
    """
    given = name
    if name == "auto":
        has_mps = mps and torch.backends.mps.is_available()
        name = "cuda" if torch.cuda.is_available() else "mps" if has_mps else "cpu"
    if name == "cuda":
        name = f"cuda:{local_rank}"
    try:
        device = torch.device(name)
    except RuntimeError as unknown:
        raise _unknown(name, option) from unknown
    if device.type not in ("cpu", "cuda", "mps"):
        raise _unknown(name, option)
    if device.type == "cuda":
        count = torch.cuda.device_count()
        if (device.index or 0) >= count:
            there = counted(count, "CUDA device") if count else "no CUDA device"
            raise InputError(f"{option}={given}: this machine has {there}; use auto or cpu")
        # cuDNN's attention makes a new plan for every batch shape, and shapes rarely repeat: on an
        # H200 the small preset trained at 33,000 tokens/s with it and at 278,000 without.
        torch.backends.cuda.enable_cudnn_sdp(False)
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise InputError(f"{option}=mps: this machine has none; use auto or cpu")
    return device


def on_device(device: torch.device) -> AbstractContextManager[object]:
    """Make a CUDA device the one that kernels and streams are started on."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def _unknown(name: str, option: str) -> InputError:
    return InputError(f"{option}={name}: use auto, cpu, cuda, cuda:N or mps")
