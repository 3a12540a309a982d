"""What `transduce complexity` measures, and on what."""

from dataclasses import dataclass
from typing import Literal, cast, get_args

from transduce.errors import InputError

Precision = Literal["auto", "float32", "bf16"]

FEW_N, ALL_N = (64, 128, 256, 512, 1024, 2048), tuple(2**i for i in range(4, 15))
FEW_D, ALL_D = (64, 128, 256), (64, 128, 256, 512, 1024)
FEW_SECONDS, ALL_SECONDS = 40.0, 480.0
TRACED_N, PROFILED_N, CONNECTED_N = (16, 32, 64), (16, 64, 256, 1024), (16, 64, 256)
"""Lengths whose operations are followed, whose kernels are counted, whose paths are found.

The operations of an unrolled recurrence are followed one by one: more would take long.
"""
D_K = 64
"""The paper's d_k: a layer of width d has d / 64 heads, or one."""


@dataclass(frozen=True)
class GridOptions:
    """Sizes in ascending order, the paper's k and r, the device, and how long it may take."""

    n: tuple[int, ...] = FEW_N
    d: tuple[int, ...] = FEW_D
    k: int = 3
    r: int = 64
    device: str = "auto"
    precision: Precision = "auto"  # bf16 on a GPU, float32 elsewhere
    seconds: float = FEW_SECONDS  # for time and memory; the rest takes some seconds more

    def __post_init__(self) -> None:
        if self.device == "mps":
            raise InputError(
                "--device mps: its time and memory cannot be measured; use cpu or cuda"
            )
        for d in self.d:
            if d > D_K and d % D_K:
                raise InputError(f"--d {d}: widths over {D_K} are multiples of it, for its heads")
            if d % 2:
                raise InputError(f"--d {d}: widths are even")
        if self.k < 3 or self.k % 2 == 0:
            raise InputError(f"--k {self.k}: a centred kernel is odd, and at least 3")
        if self.r < 2:
            raise InputError(f"--r {self.r}: a neighbourhood has at least 2 positions")
        if not self.seconds > 0:
            raise InputError(f"--seconds {self.seconds:g}: give more than 0")
        if self.precision not in get_args(Precision):
            raise InputError(f"--precision {self.precision}: use auto, float32 or bf16")

    @property
    def connected_n(self) -> tuple[int, ...]:
        """The lengths of which paths are found: for more, gradients of all pairs take long."""
        return tuple(n for n in CONNECTED_N if n <= self.n[-1]) or self.n[:1]


def grid_options(
    *,
    n: str | None,
    d: str | None,
    k: int,
    r: int,
    device: str,
    precision: str,
    seconds: float | None,
    everything: bool,
) -> GridOptions:
    """Read the options of a command line; what is not given is small, or all of it."""
    default_n, default_d, default_seconds = (
        (ALL_N, ALL_D, ALL_SECONDS) if everything else (FEW_N, FEW_D, FEW_SECONDS)
    )
    return GridOptions(
        n=default_n if n is None else _sizes("--n", n),
        d=default_d if d is None else _sizes("--d", d),
        k=k,
        r=r,
        device=device,
        precision=cast(Precision, precision),
        seconds=default_seconds if seconds is None else seconds,
    )


def _sizes(option: str, text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isdecimal() and len(part) < 8 and int(part) for part in parts):
        raise InputError(f"{option} {text!r}: give sizes with commas, such as 64,128,256")
    return tuple(sorted({int(part) for part in parts}))
