"""How much memory is free, on the host or on a device."""

import os
from pathlib import Path

import torch

_LIMIT, _USED = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")


def free_bytes(device: torch.device) -> int:
    """Return how many bytes new tensors on a device may take; on the CPU without swapping."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        reserved = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(free + reserved)
    return min(_free_on_host(), _free_in_container())


def _free_on_host() -> int:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:  # not Linux
        return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)
    kibibytes = {name: int(rest.split()[0]) for name, _, rest in (x.partition(":") for x in lines)}
    return 1024 * kibibytes["MemAvailable"]


def _free_in_container() -> int:
    """Return what a container may still take; a large number outside one."""
    try:
        return int(_LIMIT.read_text(encoding="ascii")) - int(_USED.read_text(encoding="ascii"))
    except (OSError, ValueError):  # 'max' is no limit
        return 2**62
