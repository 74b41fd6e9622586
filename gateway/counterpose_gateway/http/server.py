"""The server of `serve`: uvicorn with our bounds on headers and without a line a request."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from counterpose_gateway.http.connection import HeaderLimits, http_protocol
from counterpose_gateway.settings import GatewaySettings

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
