"""A full gateway's refusals are written by the connection's protocol, and are those of the application."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from starlette.types import Receive, Scope, Send

from counterpose_gateway.http import connection as protocol
from counterpose_gateway.http.bounds import Room
from counterpose_gateway.http.in_flight import InFlight
from counterpose_gateway.settings import GatewaySettings
from counterpose_http.problems import ProblemMiddleware
from fakes.connections import Connection, connected

ONE = GatewaySettings(max_requests_in_flight=1, max_listeners=1)
POST = b'POST /v1/runs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 11\r\n%b\r\n{"seed": 12}'[:-1]


class Refused:
    """Methods of the requests that were turned away."""

    def __init__(self) -> None:
        self.methods: list[str] = []
        self.room = Room(ONE, turned_away=self.methods.append)


@asynccontextmanager
async def full(refused: Refused) -> AsyncIterator[Connection]:
    """Connect to a server whose only place is taken."""
    refused.room.requests.enter()
    async with connected(ProblemMiddleware(InFlight(_no_app, room=refused.room), server="it"),
                         room=refused.room) as connection:  # fmt: skip
        yield connection


async def _no_app(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    """Read one answer: its status, its headers and its body."""
    head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 100)).decode()
    first, *lines = head.strip().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return int(first.split()[1]), headers, await reader.readexactly(int(headers.get("content-length", "0")))


async def test_a_refusal_is_that_of_the_application_and_the_connection_goes_on() -> None:
    refused = Refused()
    async with full(refused) as (reader, writer):
        # One that names its request is answered by the application, and shows what the others must be.
        writer.write(POST % b"x-request-id: mine\r\n")
        status, headers, body = await answer(reader)
        assert refused.methods == []
        for _ in range(2):
            writer.write(POST % b"connection: keep-alive\r\n")
            again, told, document = await answer(reader)
            assert (again, status) == (429, 429)
            assert told["x-request-id"] != headers["x-request-id"] == "mine"
            assert {**told, "x-request-id": "", "content-length": "", "date": ""} == {
                **headers, "x-request-id": "", "content-length": "", "date": "",
            }  # fmt: skip
            own = json.loads(document)
            assert own.pop("request_id") == told["x-request-id"]
            assert own == {key: value for key, value in json.loads(body).items() if key != "request_id"}
        assert refused.methods == ["POST", "POST"]
        refused.room.requests.leave()
        writer.write(POST % b"")
        assert (await answer(reader))[0] == 204


async def test_health_and_free_listeners_are_served_and_a_body_that_stalls_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(protocol, "HEADER_SECONDS", 1.0)
    refused = Refused()
    async with full(refused) as (reader, writer):
        for path in (b"/healthz", b"/v1/runs/a/events"):
            writer.write(b"GET %b HTTP/1.1\r\nhost: localhost\r\n\r\n" % path)
            assert (await answer(reader))[0] == 204
        # Two in one packet, and one whose body does not end.
        writer.write(2 * (POST % b"") + (POST % b"")[:-4])
        assert [(await answer(reader))[0] for _ in range(3)] == [429, 429, 408]
        assert await reader.read() == b""
    assert refused.methods == ["POST", "POST"]


async def test_a_connection_that_is_refused_for_long_lives_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEADER_SECONDS", 2.0)
    async with full(Refused()) as (reader, writer):
        for _ in range(6):
            writer.write(POST % b"")
            assert (await answer(reader))[0] == 429
            await asyncio.sleep(0.5)
