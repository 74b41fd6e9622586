"""Connections to the gateway's protocol over a real socket, for bytes that no HTTP client would send."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.server import ServerState

from counterpose_core.contract.base import Problem
from counterpose_gateway.http.bounds import Room
from counterpose_gateway.http.connection import HeaderLimits, http_protocol
from counterpose_gateway.http.request_head import tell_caller

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def uvicorn_protocol(
    app: ASGIApp, limits: HeaderLimits, state: ServerState | None = None, room: Room | None = None
) -> Callable[[], asyncio.Protocol]:
    """Return what makes the protocol of one connection to ``app``."""

    async def known(scope: Scope, receive: Receive, send: Send) -> None:
        # As the edge does for a gateway that wants no key.
        tell_caller(scope, None)
        await app(scope, receive, send)

    protocol: Any = http_protocol(limits, room)
    config = uvicorn.Config(known, http=protocol, log_config=None, lifespan="off")
    config.load()
    return partial(protocol, config=config, server_state=state or ServerState(), app_state={})


@asynccontextmanager
async def connected(
    app: ASGIApp, limits: HeaderLimits | None = None, room: Room | None = None
) -> AsyncIterator[Connection]:
    """Open one connection to ``app``, whose server answers by itself where ``room`` is full."""
    state = ServerState()
    protocol = uvicorn_protocol(app, limits or HeaderLimits(), state, room)
    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    try:
        yield reader, writer
    finally:
        # Not closed: that would first send all that a refusing server leaves unread.
        writer.transport.abort()
        server.close()
        while state.connections:  # noqa: ASYNC110  # uvicorn tells no event
            await asyncio.sleep(0.001)


def raw_refusal(answer: bytes, status: int) -> Problem:
    """Check that all that was answered is one problem document of this status, and return it."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode()), answer[:200]
    assert b"content-type: application/problem+json" in head
    found = Problem.model_validate_json(body)
    assert found.status == status
    return found
