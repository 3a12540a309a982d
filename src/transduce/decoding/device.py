"""What translations are computed on."""

import torch

from transduce.errors import InputError


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
