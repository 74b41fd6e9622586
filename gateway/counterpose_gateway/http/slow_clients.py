"""A deadline for request headers: uvicorn alone would wait for a slow client without limit."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

from counterpose_core.contract.base import PROBLEM_MEDIA_TYPE, Problem
from counterpose_core.errors import CounterposeError, RequestTimeout

HEADER_SECONDS = 20.0
"""Seconds from the connection, or from the first byte of a later request, to the last header."""


class HeaderDeadline(asyncio.Protocol):
    """Answers 408 and hangs up if headers are too slow; mixed into one of uvicorn's protocols."""

    # Set by uvicorn: the request that is being answered, if any, and the connection.
    cycle: Any
    transport: asyncio.Transport
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the deadline."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Process the bytes; the deadline goes on only while the headers are incomplete."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the deadline."""
        self._forget()
        super().connection_lost(exc)

    def request_ended(self) -> None:
        """Begin anew with the next request: this one was answered without the application."""
        self._forget()

    def _watch(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget()
        # Bytes do not restart it: one byte a second would keep the connection open without limit.
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(HEADER_SECONDS, self._hang_up)

    def _forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _hang_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(raw_problem(_too_slow()))
            self.transport.close()


def raw_problem(error: CounterposeError) -> bytes:
    """Return a whole response, for a request that no application sees; the connection ends with it."""
    body = Problem.of(error).model_dump_json().encode()
    head = (
        f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\ncontent-type: {PROBLEM_MEDIA_TYPE}\r\n"
        f"content-length: {len(body)}\r\nx-content-type-options: nosniff\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body


def _too_slow() -> RequestTimeout:
    return RequestTimeout(
        f"the headers did not arrive within {HEADER_SECONDS:g} s; send the request without a pause"
    )
