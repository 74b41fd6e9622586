"""What a replica's engine thread does once no call comes."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path

import pytest

from counterpose_processes.system import trim_memory
from counterpose_services.batching import engine_thread
from counterpose_services.batching.engine_thread import EngineThread


async def test_freed_memory_goes_back_once_after_the_last_of_several_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trimmed: list[bool] = []
    monkeypatch.setattr(engine_thread, "trim_memory", lambda: trimmed.append(True))
    thread = EngineThread(hung_after_s=60.0, trimmed_after_s=0.05)
    for _ in range(3):
        await thread.run(lambda: None)
    assert trimmed == []
    await asyncio.sleep(0.3)
    assert trimmed == [True]


async def test_nothing_is_trimmed_while_another_call_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    trimmed: list[bool] = []
    monkeypatch.setattr(engine_thread, "trim_memory", lambda: trimmed.append(True))
    thread, over = EngineThread(hung_after_s=60.0, calls=3, trimmed_after_s=0.02), threading.Event()
    long = asyncio.create_task(thread.run(over.wait))
    try:
        await asyncio.sleep(0)
        await thread.run(lambda: None)
        await asyncio.sleep(0.2)
        assert trimmed == []
    finally:
        over.set()
    await long
    await asyncio.sleep(0.2)
    assert trimmed == [True]


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's malloc_trim")
def test_trimming_gives_the_pages_of_freed_blocks_back() -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf(
            "SC_PAGE_SIZE"
        )

    blocks = [bytearray(60_000) for _ in range(2_000)]
    last = bytearray(60_000)
    del blocks
    before = resident()
    trim_memory()
    assert before - resident() > 50_000_000
    assert last
