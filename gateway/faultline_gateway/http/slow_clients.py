"""Clients that send their headers too slowly: uvicorn waits for them without end, this does not."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from faultline_core.contract.base import PROBLEM_MEDIA_TYPE, Problem
from faultline_core.errors import RequestTimeout

HEADER_SECONDS = 20.0
"""From the connection, or a request's first byte on one that is kept, to its last header."""


class HeaderDeadline(asyncio.Protocol):
    """Answers 408 and hangs up where headers come too slowly; stands before one of uvicorn's protocols."""

    # Uvicorn's: the request that is being answered, if any, and where its answer goes.
    cycle: Any
    transport: asyncio.Transport
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take what came, and wait on only for a request that is not whole."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._forget()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget()
        # Not set anew by each byte: one a second would keep the connection for ever.
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(HEADER_SECONDS, self._hang_up)

    def _forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _hang_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(_too_slow())
            self.transport.close()


def _too_slow() -> bytes:
    detail = f"the headers did not arrive within {HEADER_SECONDS:g} s; send the request without a pause"
    body = Problem.of(RequestTimeout(detail)).model_dump_json().encode()
    head = (
        f"HTTP/1.1 408 Request Timeout\r\ncontent-type: {PROBLEM_MEDIA_TYPE}\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body


HTTP_PROTOCOL: type[asyncio.Protocol] = type("HttpProtocol", (HeaderDeadline, AutoHTTPProtocol), {})
"""What uvicorn would choose, with the deadline."""
