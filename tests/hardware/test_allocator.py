"""Freed memory is kept in the process, or returned to the system."""

import platform
import resource
from pathlib import Path

import pytest
import torch

from tests.command import forked
from transduce.hardware.allocator import keep_freed_memory

FLOATS = 9 * 2**20  # 36 MiB: by itself, glibc returns blocks of more than 32


def faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def allocate_and_free() -> None:
    for _ in range(5):
        torch.ones(FLOATS)


def count_faults(result: Path, keep: bool) -> None:
    """Write how many pages the system has to provide for tensors after others were freed."""
    if keep:
        keep_freed_memory()
    for _ in range(2):
        allocate_and_free()
    before = faults()
    allocate_and_free()
    result.write_text(str(faults() - before))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_freed_memory_is_reused(tmp_path: Path) -> None:
    counts = []
    for keep in (True, False):
        process = forked(count_faults, tmp_path / "count", keep)
        process.join()
        assert process.exitcode == 0
        counts.append(int((tmp_path / "count").read_text()))
    kept, released = counts
    assert kept < 100
    assert released > 10_000
