import platform
import subprocess
import sys

import pytest

COUNT_FAULTS = """
import resource, sys
import torch
from transduce.training.memory import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

if sys.argv[1] == "keep":
    keep_freed_memory()
def take_and_free():
    for _ in range(5):
        torch.ones(2**24)

for _ in range(5):
    take_and_free()
before = faults()
take_and_free()
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="speaks to glibc")
def test_freed_memory_is_used_again() -> None:
    kept, given_back = (
        int(subprocess.check_output([sys.executable, "-c", COUNT_FAULTS, choice]))
        for choice in ("keep", "give back")
    )
    assert kept < 100
    assert given_back > 10_000
