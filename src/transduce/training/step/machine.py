"""The device of a training run, and its precision."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from transduce.config.schema import RunConfig
from transduce.hardware.devices import choose_device
from transduce.nn.kernels.available import triton_works


@dataclass(frozen=True)
class Machine:
    """A device, its precision, and whether steps may be compiled."""

    device: torch.device
    autocast: torch.dtype | None = None  # of matrix products; None: the dtype of the weights
    may_compile: bool = True

    @property
    def uses_cuda_graphs(self) -> bool:
        """Whether steps are compiled, recorded and replayed on this device."""
        return self.may_compile and self.device.type == "cuda" and triton_works()

    def uncompiled(self) -> AbstractContextManager[None]:
        """Run uncompiled: torch would compile again for every new shape."""
        return torch.compiler.set_stance("force_eager") if self.uses_cuda_graphs else nullcontext()

    def seed_dropout(self, seed: int) -> None:
        """Seed what dropout draws from on this device."""
        if self.device.type == "cpu":
            torch.default_generator.manual_seed(seed)  # the others take far longer, for nothing
        else:
            torch.manual_seed(seed)

    @property
    def precision(self) -> str:
        """The precision as the settings name it."""
        return "float32" if self.autocast is None else "bf16"

    def autocasting(self) -> AbstractContextManager[None]:
        """Compute matrix products in this precision."""
        return torch.autocast(
            self.device.type, dtype=self.autocast, enabled=self.autocast is not None
        )


def choose_machine(config: RunConfig, *, local_rank: int = 0) -> Machine:
    """Resolve the device and the precision of the settings, which may be `auto`."""
    device = choose_device(config.device, local_rank=local_rank, option="run.device", mps=True)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    has_bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    in_bf16 = config.precision == "bf16" or (config.precision == "auto" and has_bf16)
    return Machine(device, torch.bfloat16 if in_bf16 else None, config.compile)
