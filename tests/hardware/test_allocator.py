"""Freed memory is kept in the process, or returned to the system."""

import platform
import subprocess
import sys

import pytest

COUNT_FAULTS = """
import resource, sys
import torch
from transduce.hardware.allocator import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

if sys.argv[1] == "keep":
    keep_freed_memory()
def allocate_and_free():
    for _ in range(5):
        torch.ones(2**24)

for _ in range(5):
    allocate_and_free()
before = faults()
allocate_and_free()
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_freed_memory_is_reused() -> None:
    kept, released = (
        int(subprocess.check_output([sys.executable, "-c", COUNT_FAULTS, choice]))
        for choice in ("keep", "release")
    )
    assert kept < 100
    assert released > 10_000
