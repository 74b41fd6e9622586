"""Memory that a process has freed."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import numpy as np
from counterpose_processes.system import return_freed_memory

return_freed_memory()


def resident():
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024


for _ in range(2):
    # Once such a block was freed, the allocator would keep the next ones; what is last would hold them all.
    arrays = [np.ones(1_000_000) for _ in range(20)]
    last = [np.ones(10_000) for _ in range(20)]
    before = resident()
    del arrays
print(before - resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_freed_arrays_go_back_to_the_system() -> None:
    told = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    assert float(told.stdout) > 140, "most of 160 MB"
