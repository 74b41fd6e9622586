"""The event loop of `serve`: few threads beside it, and short turns for them."""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
from concurrent.futures import ThreadPoolExecutor

from anyio.to_thread import current_default_thread_limiter

ROUTE_THREADS = 8
"""Threads for routes that read or write the ledger; each more only divides the same interpreter."""

TURN_SECONDS = 0.0005
"""How long a busy thread keeps the interpreter while others wait; Python's 5 ms times the threads is a poll's
whole time, since the loop gives the interpreter away at each of its steps."""

OWN_FILES = 512
"""Files of the process itself: the ledger, images, connections to services."""


def prepare_event_loop() -> None:
    """Let the running loop answer quickly while routes work in threads."""
    sys.setswitchinterval(TURN_SECONDS)
    # A full collection looks through all that was imported, for 0.15 s in which nobody is answered.
    gc.collect()
    gc.freeze()
    current_default_thread_limiter().total_tokens = ROUTE_THREADS
    # For `asyncio.to_thread`, which otherwise takes a number of threads that depends on the machine.
    threads = ThreadPoolExecutor(ROUTE_THREADS, thread_name_prefix="ledger")
    asyncio.get_running_loop().set_default_executor(threads)


def allow_connections(most: int) -> None:
    """Let this process hold ``most`` connections beside its own files, as far as the system permits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most + OWN_FILES
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    # Many systems begin with 1,024, and accept no connection beyond.
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
