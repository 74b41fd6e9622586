"""Clients that send one byte at a time get a timeout error and are disconnected."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Receive, Scope, Send

from counterpose_gateway.http import connection as protocol
from counterpose_gateway.http.connection import HeaderLimits
from fakes.connections import connected, raw_refusal, uvicorn_protocol

REQUEST = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that takes longer than the timeout for headers."""
    await asyncio.sleep(1.5 * protocol.HEADER_SECONDS)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEADER_SECONDS", 0.05)


@pytest.mark.fault("B22")
@pytest.mark.parametrize("sent", [b"", b"G", REQUEST[:-2]])
async def test_late_headers_time_out(sent: bytes) -> None:
    async with connected(hello) as (reader, writer):
        writer.write(sent)
        assert raw_refusal(await reader.read(), 408).code == "request-timeout"


class Line(asyncio.Transport):
    """A connection that records what was written and whether it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False

    def get_write_buffer_size(self) -> int:
        """Nothing waits."""
        return 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Record ``data``."""
        self.written += bytes(data)

    def close(self) -> None:
        """Close."""
        self.closed = True

    def is_closing(self) -> bool:
        """Whether it is closing."""
        return self.closed


@pytest.mark.fault("B22")
async def test_further_bytes_do_not_extend_the_timeout() -> None:
    # Over a fake transport: a socket that is closed with unread bytes may lose the answer.
    protocol, line = uvicorn_protocol(hello, HeaderLimits())(), Line()
    protocol.connection_made(line)
    protocol.data_received(REQUEST[:-2] + b"x: ")
    for _ in range(1000):
        if line.closed:
            break
        protocol.data_received(b"y")
        await asyncio.sleep(0.01)
    assert raw_refusal(line.written, 408).code == "request-timeout"
    protocol.connection_lost(None)


async def test_a_slow_response_keeps_the_connection_open(monkeypatch: pytest.MonkeyPatch) -> None:
    # Its requests must arrive in time though this machine is busy.
    monkeypatch.setattr(protocol, "HEADER_SECONDS", 1.0)
    async with connected(hello) as (reader, writer):
        for _ in range(2):
            writer.write(REQUEST)
            assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200 ")
        writer.write(REQUEST[:-2])
        assert raw_refusal(await reader.read(), 408).code == "request-timeout"
