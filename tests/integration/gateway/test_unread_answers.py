"""Clients that ask for large answers and do not read them: little is kept, and the client is cut off."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from counterpose_gateway.http import connection
from counterpose_gateway.http.answers import PIECE, Answers, in_pieces
from counterpose_gateway.http.bounds import Shares
from counterpose_http.problems import ProblemMiddleware
from fakes.connections import Connection, connected
from fakes.processes import poll_until

SIZE = 12_000_000
REQUEST = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"


class Large:
    """Answers 12 MB, and notes what it is doing."""

    def __init__(self) -> None:
        self.begun = self.ended = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.begun += 1
        try:
            await Response(bytes(SIZE), media_type="image/png")(scope, receive, send)
        finally:
            self.ended += 1


def serving(app: ASGIApp, most: int = 2 * SIZE, of_one: int = SIZE) -> ASGIApp:
    unread = Shares("unread-bytes", most, of_one, "answers that nobody has read yet take all the room")
    return ProblemMiddleware(Answers(app, unread=unread), server="it")


async def answered(client: Connection) -> tuple[int, bytes]:
    """Read one answer: its status and its body."""
    reader, _ = client
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = next(line for line in head.lower().split("\r\n") if line.startswith("content-length: "))
    return int(head.split()[1]), await reader.readexactly(int(length.split()[1]))


async def test_a_reader_gets_all_and_a_request_goes_on_until_it_has_it() -> None:
    app = Large()
    async with connected(serving(app)) as client:
        client[1].write(REQUEST)
        await poll_until(lambda: app.begun == 1)
        await asyncio.sleep(0.05)
        assert app.ended == 0, "its bytes are not all handed to the connection"
        assert await answered(client) == (200, bytes(SIZE))
        await poll_until(lambda: app.ended == 1)
        client[1].write(REQUEST)
        assert (await answered(client))[0] == 200, "and its bytes are no longer counted"


async def test_who_does_not_read_is_cut_off_and_gives_the_bytes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "UNREAD_SECONDS", 0.1)
    app = Large()
    async with connected(serving(app)) as (_, writer):
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # of a socket's transport
        writer.write(REQUEST)
        await poll_until(lambda: app.begun == app.ended == 1)


@pytest.mark.fault("B66")
async def test_one_address_that_reads_nothing_is_refused_more_and_told_why() -> None:
    app = Large()
    served = serving(app)
    async with connected(served) as first, connected(served) as second:
        first[1].write(REQUEST)
        await poll_until(lambda: app.begun == 1)
        second[1].write(REQUEST)
        status, body = await answered(second)
        assert (status, json.loads(body)["code"]) == (429, "rate-limited")
        assert "nobody has read yet" in json.loads(body)["detail"]
        assert (await answered(first))[0] == 200
        await poll_until(lambda: app.ended == 2)
        second[1].write(REQUEST)
        assert (await answered(second))[0] == 200


@pytest.mark.fault("B66")
@pytest.mark.parametrize("size", [100, PIECE // 2, PIECE])
async def test_answers_of_any_size_wait_for_the_one_before_if_nobody_reads(size: int) -> None:
    """A hundred requests in one packet, of answers that are each too small to be counted."""
    begun: list[int] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        begun.append(size)
        await Response(bytes(size), media_type="image/png")(scope, receive, send)

    async with connected(serving(app)) as (_, writer):
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # of a socket's transport
        writer.write(200 * REQUEST)
        await poll_until(lambda: len(begun) > 0)
        await asyncio.sleep(0.3)
        # What the system's own buffers take is not the gateway's.
        assert sum(begun) < 20_000_000


@pytest.mark.fault("B66")
async def test_who_reads_a_byte_now_and_then_is_cut_off_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "UNREAD_SECONDS", 0.2)
    app = Large()
    async with connected(serving(app)) as (_, writer):
        transport: Any = writer.transport
        writer.write(REQUEST)
        sock = transport.get_extra_info("socket")
        transport.pause_reading()
        await poll_until(lambda: app.begun == 1)
        while not app.ended:
            with suppress(OSError):
                sock._sock.recv(1)
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("size", [0, 1, PIECE, PIECE + 1, 3 * PIECE])
@pytest.mark.parametrize("more", [False, True])
def test_pieces_are_the_whole_and_only_the_last_ends_it(size: int, more: bool) -> None:
    body = bytes(range(256)) * (size // 256 + 1)
    pieces = list(in_pieces({"type": "http.response.body", "body": body[:size], "more_body": more}))
    assert b"".join(each["body"] for each in pieces) == body[:size]
    assert all(len(each["body"]) <= PIECE for each in pieces)
    assert [each["more_body"] for each in pieces] == [True] * (len(pieces) - 1) + [more]
