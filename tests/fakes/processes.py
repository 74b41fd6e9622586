"""Child processes that are killed when their test ends, if not earlier."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess

import pytest

PATIENCE_SECONDS = 100.0
LOOK_SECONDS = 0.02

Start = Callable[..., ForkServerProcess]


@contextmanager
def child_processes() -> Iterator[Start]:
    """Return a function that starts ``target(*arguments)`` in a separate process."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["fakes.ledger_worker", "fakes.staged_worker", "fakes.gateway_server", "fakes.mortal_worker"]
    )
    with pytest.MonkeyPatch.context() as patch:
        # The fork server finds the modules to preload only through the environment.
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        forkserver.ensure_running()
    started: list[ForkServerProcess] = []

    def start(target: Callable[..., None], *arguments: object) -> ForkServerProcess:
        process = context.Process(target=target, args=arguments)
        process.start()
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.join()
        process.close()


def look_until(
    holds: Callable[[], bool], seconds: float = PATIENCE_SECONDS, *, pause: float = LOOK_SECONDS
) -> None:
    """Poll until ``holds`` returns true, with a pause of some seconds in between; fail after a time limit."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(pause)


async def poll_until(holds: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    """Let other tasks run until ``holds`` returns true; fail after a time limit."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it takes too long"
        await asyncio.sleep(0.001)
