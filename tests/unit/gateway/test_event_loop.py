"""The loop of `serve`: few threads, short turns, and as many files as it may have connections."""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
import threading
from collections.abc import Iterator

import pytest
from anyio.to_thread import current_default_thread_limiter

from counterpose_gateway.http.server import (
    OWN_FILES,
    ROUTE_THREADS,
    TURN_SECONDS,
    allow_connections,
    prepare_event_loop,
)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    turn, files = sys.getswitchinterval(), resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    sys.setswitchinterval(turn)
    resource.setrlimit(resource.RLIMIT_NOFILE, files)


async def test_what_was_made_before_is_collected_no_more() -> None:
    made: list[list[int]] = [[] for _ in range(1_000)]
    frozen = gc.get_freeze_count()
    prepare_event_loop()
    assert gc.get_freeze_count() >= frozen + len(made)


async def test_routes_and_the_ledger_have_few_threads_and_short_turns() -> None:
    prepare_event_loop()
    assert current_default_thread_limiter().total_tokens == ROUTE_THREADS
    assert sys.getswitchinterval() == pytest.approx(TURN_SECONDS)
    together = threading.Barrier(ROUTE_THREADS)
    waiting = [asyncio.to_thread(together.wait, 20) for _ in range(ROUTE_THREADS)]
    names = [asyncio.to_thread(lambda: threading.current_thread().name) for _ in range(20)]
    await asyncio.gather(*waiting)
    assert len(set(await asyncio.gather(*names))) <= ROUTE_THREADS


def test_the_limit_of_files_grows_to_the_connections_and_never_beyond_what_is_permitted() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    allow_connections(300)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (300 + OWN_FILES, hard)
    allow_connections(10)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (300 + OWN_FILES, hard)
    allow_connections(10**9)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
