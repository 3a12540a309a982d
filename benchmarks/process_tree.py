"""Memory of a process and all below it, while it runs."""

import resource
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

EVERY_S = 0.5


@dataclass
class WatchedRun:
    """How long a process ran, and the memory of its tree over that time."""

    code: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0  # of the process and of those below it that it has waited for
    mib: list[float] = field(default_factory=list)  # every half second

    @property
    def peak_mib(self) -> float:
        """The most at any moment."""
        return max(self.mib, default=0.0)

    def by_tenth(self) -> list[int]:
        """Return the peak in each tenth of the time."""
        count = len(self.mib)
        tenths = (self.mib[count * n // 10 : count * (n + 1) // 10] for n in range(10))
        return [round(max(some, default=0.0)) for some in tenths]


def resident_bytes(process: int) -> int:
    """Sum the resident memory of a process and all below it; shared pages count once (PSS)."""
    total = 0
    try:
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += 1024 * int(line.split()[1])
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return total
    return total + sum(resident_bytes(int(child)) for child in children)


def watch(
    process: subprocess.Popen[bytes],
    *,
    life_s: float | None = None,
    memory_of: Callable[[], int] | None = None,
    on_look: Callable[[], None] = lambda: None,
) -> WatchedRun:
    """Measure a process until it ends, or kill it after its life.

    memory_of: what is measured instead of the process's own tree.
    on_look: is called at each look.
    """
    measure = memory_of or (lambda: resident_bytes(process.pid))
    run, began, cpu_s = WatchedRun(), time.monotonic(), _cpu_s()
    while process.poll() is None:
        left = EVERY_S if life_s is None else began + life_s - time.monotonic()
        if left <= 0:
            process.kill()
            process.wait()
            break
        run.mib.append(measure() / 2**20)
        on_look()
        try:
            process.wait(min(EVERY_S, left))
        except subprocess.TimeoutExpired:
            continue
    run.code, run.seconds = process.returncode, time.monotonic() - began
    run.cpu_s = _cpu_s() - cpu_s
    return run


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
