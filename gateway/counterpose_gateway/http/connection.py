"""A connection's protocol: the bound on headers and their time, and a document for what is not HTTP.

Uvicorn reads headers of any size and waits for them for ever, before any application can look at the key.

Head and body of a short answer in one write: uvicorn sends each by itself.

Requests that find no room are answered by the connection's protocol, before a task is made for them.

An overloaded gateway answers ten times as many refusals as requests: each that costs a task, a scope and a
document takes the processor from the requests that are served.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from counterpose_core.contract.base import PROBLEM_MEDIA_TYPE, REQUEST_ID_HEADER, Problem
from counterpose_core.errors import CounterposeError, HeadersTooLarge, MalformedRequest, RequestTimeout
from counterpose_gateway.http.bounds import Room, Shares
from counterpose_gateway.http.in_flight import bound_of
from counterpose_gateway.http.request_head import require_plain
from counterpose_http.problems import RETRY_AFTER_SECONDS

_NO_ID = b"0" * 32
_PLAIN = frozenset({b"GET", b"POST", b"PUT", b"DELETE", b"PATCH"})
_OF_THE_APPLICATION = frozenset({b"expect", b"upgrade", REQUEST_ID_HEADER.encode()})
"""A request with one of these headers asks for more than a refusal: the application answers it."""


class TurnsAway(HttpToolsProtocol):
    """Answers 429 as the application would, and keeps the connection; mixed into uvicorn's protocol.

    Attributes:
        room: the bounds that the application counts by; None turns nothing away.
    """

    room: Room | None = None
    _turned_away: Shares | None = None

    def on_headers_complete(self) -> None:
        """Start the application, unless it would refuse the request at once."""
        self._turned_away = self._full_for_it()
        if self._turned_away is None:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Forget the body of a request that is turned away; `HeaderDeadline` bounds its time."""
        if self._turned_away is None:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Answer a request that is turned away, once it has been read."""
        bound, self._turned_away = self._turned_away, None
        if bound is None:
            super().on_message_complete()
            return
        self.request_ended()
        if self.room is not None and not self.transport.is_closing():
            self.transport.write(self._answer(bound))
            bound.count_refusal()
            self.room.turned_away(self.parser.get_method().decode("ascii"))
        self.on_response_complete()

    def request_ended(self) -> None:
        """Be told that a request was answered without the application."""

    def _full_for_it(self) -> Shares | None:
        # A request behind another one waits for its turn.
        before: RequestResponseCycle | None = self.cycle
        if self.room is None or not (before is None or before.response_complete):
            return None
        parser = self.parser
        if parser.get_method() not in _PLAIN or not parser.should_keep_alive():
            return None
        if not _OF_THE_APPLICATION.isdisjoint(name for name, _ in self.headers):
            return None
        bound = bound_of(self.url.partition(b"?")[0].decode("latin-1"), self.room)
        return bound if bound is not None and bound.is_full else None

    def _answer(self, bound: Shares) -> bytes:
        body, request_id = _document(bound), f"{random.getrandbits(128):032x}".encode()
        head = [
            b"HTTP/1.1 429 Too Many Requests",
            *(b"%b: %b" % header for header in self.server_state.default_headers),
            b"content-type: %b" % PROBLEM_MEDIA_TYPE.encode(), b"content-length: %d" % len(body),
            b"retry-after: %d" % RETRY_AFTER_SECONDS, b"x-content-type-options: nosniff",
            b"%b: %b" % (REQUEST_ID_HEADER.encode(), request_id),
        ]  # fmt: skip
        return b"\r\n".join([*head, b"", body.replace(_NO_ID, request_id)])


@lru_cache
def _document(bound: Shares) -> bytes:
    """The refusal's body, with a request id that is to be replaced by one of the same length."""
    return Problem.of(bound.refusal(), request_id=_NO_ID.decode()).model_dump_json().encode()


LINGER_SECONDS = 2.0
"""Seconds for which a refused client may go on sending: its answer is lost if we close on unread bytes."""

PIECE_BYTES = 1024
"""So many bytes are parsed at a time: what a larger piece has beside a body would count as the body."""

BYTES_OF_CHUNK = 8
"""What a chunk takes on the line for each byte of its data, at most: one of a single byte has six."""


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
    # Bytes of a head or a trailer, or of chunks' sizes and extensions beyond what their data account for.
    _unparsed = _bytes = _fields = 0
    _has_head = _deaf = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Begin, with a transport that sends short answers in one write."""
        super().connection_made(OneWrite(transport, self.loop))

    def data_received(self, data: bytes) -> None:
        """Parse the bytes, or forget them after a refusal."""
        if self._deaf:
            return
        self._unset_keepalive_if_required()
        try:
            for start in range(0, len(data), PIECE_BYTES):
                piece = data[start : start + PIECE_BYTES]
                self._unparsed += len(piece)
                self.parser.feed_data(piece)
                # A header is reported when it is complete, and would be kept whole until then.
                if self._unparsed > self.limits.most_bytes:
                    self.refuse(self._too_large())
                    return
        except httptools.HttpParserUpgrade:
            # No route upgrades: the request is answered as if it had not asked, and then the connection ends.
            self._deaf, self.cycle.keep_alive = True, False
        except httptools.HttpParserError as error:
            not_http, ours = MalformedRequest("what was sent is not HTTP/1.1; check it"), error.__context__
            self.refuse(ours if isinstance(ours, CounterposeError) else not_http)

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
        self._has_head = False

    def on_url(self, url: bytes) -> None:
        """Count the request's target."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count one header; a trailer is none, or it would say what a proxy has not seen."""
        self._fields += 1
        self._count(len(name) + len(value))
        if not self._has_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the application, unless a proxy in front may have read the head otherwise."""
        self._unparsed, self._has_head = 0, True
        require_plain(self.url, self.headers, self.parser.get_http_version())
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Pass on a part of the body, which the application bounds."""
        self._unparsed = max(self._unparsed - BYTES_OF_CHUNK * len(body), 0)
        super().on_body(body)

    def _count(self, more: int) -> None:
        self._bytes += more
        if self._bytes > self.limits.most_bytes or self._fields > self.limits.most_fields:
            raise self._too_large()

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


UNREAD_SECONDS = 30.0
"""Seconds in which a client takes at least `LEAST_READ` of an answer that waits for it, or all of it."""

LEAST_READ = 32_768
"""Bytes; a link of 1 kB a second is slower than any that loads a page."""

JOINED_BYTES = 65_536
"""A longer body is not copied to save a call."""

_BEGIN, _END = b"HTTP/1.1 ", b"\r\n\r\n"


class OneWrite(asyncio.Transport):
    """A connection's transport that holds an answer's head until its body comes, or until the next turn.

    A write is a system call, for which the event loop gives the interpreter away. Under load it gets it back
    after 0.5 ms, which is more than the whole answer takes.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._head = b""
        self._written = self._read = 0
        self._timer: asyncio.TimerHandle | None = None

    def write(self, data: Any) -> None:
        """Write the data, after the head that waits, if any."""
        if not self._head and isinstance(data, bytes) and data.startswith(_BEGIN) and data.endswith(_END):
            self._head = data
            # A stream's first event may come much later.
            self._loop.call_soon(self.flush)
        elif self._head and len(data) <= JOINED_BYTES:
            head, self._head = self._head, b""
            self._send(head + data)
        else:
            self.flush()
            self._send(data)

    def flush(self) -> None:
        """Write the head that waits, if any."""
        if self._head:
            head, self._head = self._head, b""
            self._send(head)

    def _send(self, data: Any) -> None:
        self._transport.write(data)
        self._written += len(data)
        if self._timer is None and self._transport.get_write_buffer_size():
            self._watch()

    def _watch(self) -> None:
        self._read = self._written - self._transport.get_write_buffer_size()
        self._timer = self._loop.call_later(UNREAD_SECONDS, self._look)

    def _look(self) -> None:
        """Cut a connection off whose client leaves its answer unread."""
        self._timer, waits = None, self._transport.get_write_buffer_size()
        if waits and self._written - waits < self._read + LEAST_READ:
            # Closing would wait for what is not read.
            self.abort()
        elif waits:
            self._watch()

    def close(self) -> None:
        """Close the connection after what was written."""
        self.flush()
        self._transport.close()

    def write_eof(self) -> None:
        """End the writing after what was written."""
        self.flush()
        self._transport.write_eof()

    def can_write_eof(self) -> bool:
        """Return whether the connection can be closed on one side."""
        return self._transport.can_write_eof()

    def abort(self) -> None:
        """Close the connection and forget what was not sent."""
        self._head = b""
        self._transport.abort()

    def is_closing(self) -> bool:
        """Return whether the connection is closed or being closed."""
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what is known of the connection."""
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        """Receive no more."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Receive again."""
        self._transport.resume_reading()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Let another protocol receive."""
        self._transport.set_protocol(protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol that receives."""
        return self._transport.get_protocol()
