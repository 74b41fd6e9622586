"""Requests that find no room are answered by the connection's protocol, before a task is made for them.

An overloaded gateway answers ten times as many refusals as requests: each that costs a task, a scope and a
document takes the processor from the requests that are served.
"""

from __future__ import annotations

import random
from functools import lru_cache

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from counterpose_core.contract.base import PROBLEM_MEDIA_TYPE, REQUEST_ID_HEADER, Problem
from counterpose_gateway.http.in_flight import Bound, Room
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
    _turned_away: Bound | None = None

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
            self.room.turned_away(self.parser.get_method().decode("ascii"))
        self.on_response_complete()

    def request_ended(self) -> None:
        """Be told that a request was answered without the application."""

    def _full_for_it(self) -> Bound | None:
        # A request behind another one waits for its turn.
        before: RequestResponseCycle | None = self.cycle
        if self.room is None or not (before is None or before.response_complete):
            return None
        parser = self.parser
        if parser.get_method() not in _PLAIN or not parser.should_keep_alive():
            return None
        if not _OF_THE_APPLICATION.isdisjoint(name for name, _ in self.headers):
            return None
        bound = self.room.bound_of(self.url.partition(b"?")[0].decode("latin-1"))
        return bound if bound is not None and bound.is_full else None

    def _answer(self, bound: Bound) -> bytes:
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
def _document(bound: Bound) -> bytes:
    """The refusal's body, with a request id that is to be replaced by one of the same length."""
    return Problem.of(bound.refusal(), request_id=_NO_ID.decode()).model_dump_json().encode()
