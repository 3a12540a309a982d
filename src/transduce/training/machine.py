"""What the numbers are computed on, and how precisely."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from transduce.config.schema import RunConfig
from transduce.errors import ConfigError
from transduce.nn.device import kernels_work


@dataclass(frozen=True)
class Machine:
    """A device and how to compute on it."""

    device: torch.device
    autocast: torch.dtype | None = None  # of matrix products; None: that of the weights
    may_compile: bool = True

    @property
    def records(self) -> bool:
        """Whether a step is compiled and recorded there."""
        return self.may_compile and self.device.type == "cuda" and kernels_work()

    def eagerly(self) -> AbstractContextManager[None]:
        """Use nothing compiled: what has ever new shapes would be compiled for each."""
        return torch.compiler.set_stance("force_eager") if self.records else nullcontext()

    @property
    def precision(self) -> str:
        """Name the precision as the settings do."""
        return "float32" if self.autocast is None else "bf16"

    def arithmetic(self) -> AbstractContextManager[None]:
        """Compute matrix products in the chosen precision."""
        return torch.autocast(
            self.device.type, dtype=self.autocast, enabled=self.autocast is not None
        )


def choose_machine(config: RunConfig, *, local_rank: int = 0) -> Machine:
    """Find out what is there, for settings that say `auto`."""
    device = _device(config.device, local_rank)
    has_bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    in_bf16 = config.precision == "bf16" or (config.precision == "auto" and has_bf16)
    return Machine(device, torch.bfloat16 if in_bf16 else None, config.compile)


def _device(name: str, local_rank: int) -> torch.device:
    if name == "auto":
        kinds = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
        name = next((kind for kind, there in kinds.items() if there), "cpu")
    if name == "cuda":
        name = f"cuda:{local_rank}"
    device = torch.device(name)
    if device.type == "cuda":
        # cuDNN's attention plans anew for every shape of batch, and no two are alike: on an H200
        # the small preset made 33,000 tokens/s with it and 278,000 without.
        torch.backends.cuda.enable_cudnn_sdp(False)
        count = torch.cuda.device_count()
        if (device.index or 0) >= count:
            raise ConfigError(
                f"run.device={name}: this machine has {count} CUDA devices; use auto or cpu"
            )
        torch.cuda.set_device(device)
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise ConfigError("run.device=mps: this machine has none; use auto or cpu")
    return device
