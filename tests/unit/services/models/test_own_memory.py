"""A process's own memory: what it allocated and freed again counts, pages of a mapped file do not."""

from __future__ import annotations

import mmap
import time
from pathlib import Path

import pytest

from counterpose_services.serving.engine_trial import INTERVAL_S, OwnMemory, own_bytes
from fakes.processes import look_until

MIB = 2**20
SIZE = 96 * MIB


@pytest.mark.linux
def test_memory_that_was_freed_again_counts() -> None:
    before = own_bytes()
    with OwnMemory() as memory:
        taken = bytearray(b"1") * SIZE
        # It looks from a thread of its own.
        look_until(lambda: memory.peak_bytes >= SIZE)
        del taken
    assert SIZE - 8 * MIB < memory.peak_bytes - before < SIZE + 64 * MIB


def test_pages_of_a_mapped_file_do_not_count(tmp_path: Path) -> None:
    file = tmp_path / "weights"
    file.write_bytes(b"1" * SIZE)
    before = own_bytes()
    with OwnMemory() as memory, file.open("rb") as opened:
        mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        assert sum(mapped[place] for place in range(0, SIZE, mmap.PAGESIZE)) > 0
        time.sleep(4 * INTERVAL_S)
        mapped.close()
    assert memory.peak_bytes - before < SIZE // 2
