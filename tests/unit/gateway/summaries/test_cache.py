"""The run cache: one computation per key at a time, independent keys, and no cached failures."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier, Event

import pytest

from counterpose_gateway.summaries.cache import RunCache

PATIENCE = 100.0


class Slow:
    """Computes only once it is let go, and counts how often."""

    def __init__(self) -> None:
        self.begun, self.go, self.calls = Event(), Event(), 0

    def __call__(self) -> int:
        """Wait, then answer how often this was asked."""
        self.calls += 1
        self.begun.set()
        assert self.go.wait(PATIENCE)
        return self.calls


def test_concurrent_threads_share_one_computation_per_key() -> None:
    cache, slow, all_there = RunCache(kept=4), Slow(), Barrier(4)

    def ask() -> int:
        all_there.wait(PATIENCE)
        return cache.get("key", slow)

    with ThreadPoolExecutor(4) as threads:
        answers = [threads.submit(ask) for _ in range(4)]
        assert slow.begun.wait(PATIENCE)
        # Time for the other three to ask as well, which without a lock would compute.
        time.sleep(0.1)
        slow.go.set()
        assert [answer.result(PATIENCE) for answer in answers] == [1, 1, 1, 1]
    assert slow.calls == 1


def test_a_computation_does_not_block_other_keys() -> None:
    cache, slow = RunCache(kept=4), Slow()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(cache.get, "slow", slow)
        assert slow.begun.wait(PATIENCE)
        assert cache.get("fast", lambda: "value") == "value"
        assert not waiting.done()
        slow.go.set()


def test_a_failure_is_not_cached() -> None:
    cache = RunCache(kept=4)

    def fail() -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        cache.get("key", fail)
    assert cache.get("key", lambda: 7) == 7


def test_the_least_recently_used_value_is_evicted() -> None:
    cache = RunCache(kept=2)
    for key in ("first", "second", "first", "third"):
        cache.get(key, partial(str, key))
    assert cache.get("first", lambda: "computed again") == "first"
    assert cache.get("second", lambda: "computed again") == "computed again"


async def test_concurrent_tasks_share_one_computation_per_key() -> None:
    cache, calls = RunCache(kept=4), []

    async def compute() -> int:
        calls.append(1)
        await asyncio.sleep(0)
        return len(calls)

    answers = await asyncio.gather(*(cache.get_async("key", compute) for _ in range(4)))
    assert answers == [1, 1, 1, 1]
    assert len(calls) == 1


async def test_after_a_cancelled_task_the_next_one_computes() -> None:
    cache, begun = RunCache(kept=4), asyncio.Event()

    async def never() -> int:
        begun.set()
        await asyncio.sleep(PATIENCE)
        return 0

    async def seven() -> int:
        return 7

    first = asyncio.create_task(cache.get_async("key", never))
    await begun.wait()
    second = asyncio.create_task(cache.get_async("key", seven))
    first.cancel()
    assert await second == 7
