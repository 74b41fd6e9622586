"""The server of `serve`: uvicorn with our bounds on headers and without a line a request.

The event loop of `serve`: few threads beside it, and short turns for them.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import uvicorn
from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI

from counterpose_gateway.http.connection import HeaderLimits, http_protocol
from counterpose_gateway.settings import GatewaySettings
from counterpose_processes.system import return_freed_memory

GRACE_SECONDS = 5
"""For which a server that stops waits for open requests; streams end at once."""


def server_of(app: FastAPI, settings: GatewaySettings, *, admin: bool = False) -> uvicorn.Server:
    """Return a server of an app of `create_app`, or of `create_admin_app`; its caller runs it."""
    host, port = (settings.admin_host, settings.admin_port or 0) if admin else (settings.host, settings.port)
    # No access log, because it would contain the names of datasets and runs; metrics count requests.
    config = uvicorn.Config(
        app, host=host, port=port, timeout_graceful_shutdown=GRACE_SECONDS,
        access_log=False, server_header=False, log_config=None,
        forwarded_allow_ips=list(settings.trusted_proxies),
        http=http_protocol(
            HeaderLimits(settings.max_header_bytes, settings.max_headers), app.state.room
        ),
    )  # fmt: skip
    return _Beside(config) if admin else uvicorn.Server(config)


async def serve_together(public: uvicorn.Server, admin: uvicorn.Server | None) -> None:
    """Run both until a signal stops the first."""
    if admin is None:
        await public.serve()
        return
    beside = asyncio.create_task(admin.serve())
    try:
        await public.serve()
    finally:
        admin.should_exit = True
        await beside


class _Beside(uvicorn.Server):
    """A server that leaves signals to the one that it runs beside."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


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
    return_freed_memory()
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
