"""A connection's protocol: the bound on headers and their time, and a document for what is not HTTP.

Uvicorn reads headers of any size and waits for them for ever, before any application can look at the key.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import httptools
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from counterpose_core.errors import CounterposeError, HeadersTooLarge, MalformedRequest
from counterpose_gateway.http.in_flight import Room
from counterpose_gateway.http.one_write import OneWrite
from counterpose_gateway.http.slow_clients import HeaderDeadline, raw_problem
from counterpose_gateway.http.turning_away import TurnsAway

LINGER_SECONDS = 2.0
"""Seconds for which a refused client may go on sending: its answer is lost if we close on unread bytes."""


@dataclass(frozen=True)
class HeaderLimits:
    """How much may arrive before a request's body: bytes of its line and headers, and number of headers."""

    most_bytes: int = 16_384
    most_fields: int = 100


def http_protocol(limits: HeaderLimits, room: Room | None = None) -> type[asyncio.Protocol]:
    """Return the protocol class that uvicorn makes one of for each connection.

    ``room``: where it is full, the protocol itself answers; None leaves all to the application.
    """
    return type("HttpProtocol", (HeaderDeadline, _BoundedHeaders), {"limits": limits, "room": room})


class _BoundedHeaders(TurnsAway):
    limits = HeaderLimits()
    # Bytes since a head or a part of a body was complete: of a head, a trailer or a chunk's extension.
    _unparsed = _bytes = _fields = 0
    _refusal: CounterposeError | None = None
    _deaf = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Begin, with a transport that sends short answers in one write."""
        super().connection_made(OneWrite(transport, self.loop))

    def data_received(self, data: bytes) -> None:
        """Parse the bytes, or forget them after a refusal."""
        if self._deaf:
            return
        self._unset_keepalive_if_required()
        self._unparsed += len(data)
        try:
            self.parser.feed_data(data)
            # A header is reported when it is complete, and would be kept whole until then.
            if self._unparsed > self.limits.most_bytes:
                self.refuse(self._too_large())
        except httptools.HttpParserUpgrade:
            # No route upgrades: the request is answered as if it had not asked, and then the connection ends.
            self._deaf, self.cycle.keep_alive = True, False
        except httptools.HttpParserError:
            self.refuse(self._refusal or MalformedRequest("what was sent is not HTTP/1.1; check the client"))

    def refuse(self, error: CounterposeError) -> None:
        """Answer ``error`` unless a response has begun, read no more, and hang up soon."""
        self._deaf = True
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.keep_alive = False
            if cycle.response_started or self.pipeline or not cycle.more_body:
                return
            # Its application still waits for the rest of a body, which cannot be read.
            cycle.disconnected = True
            cycle.message_event.set()
        if not self.transport.is_closing():
            self.transport.write(raw_problem(error))
            if self.transport.can_write_eof():
                self.transport.write_eof()
            self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def on_message_begin(self) -> None:
        """Begin to count."""
        super().on_message_begin()
        self._bytes = self._fields = 0

    def on_url(self, url: bytes) -> None:
        """Count the request's target."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count one header."""
        self._fields += 1
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the application."""
        self._unparsed = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Pass on a part of the body, which the application bounds."""
        self._unparsed = 0
        super().on_body(body)

    def _count(self, more: int) -> None:
        self._bytes += more
        if self._bytes > self.limits.most_bytes or self._fields > self.limits.most_fields:
            self._refusal = self._too_large()
            raise self._refusal

    def _too_large(self) -> HeadersTooLarge:
        limits = self.limits
        if self._fields > limits.most_fields:
            return HeadersTooLarge(
                f"the request has over {limits.most_fields} headers (COUNTERPOSE_MAX_HEADERS); send fewer"
            )
        return HeadersTooLarge(
            f"the request's line and headers have more than {limits.most_bytes} bytes "
            "(COUNTERPOSE_MAX_HEADER_BYTES); send smaller ones"
        )

    def _should_upgrade_to_ws(self) -> bool:
        return False
