"""Work for a client that may leave."""

from __future__ import annotations

import asyncio

import pytest
from starlette.requests import Request
from starlette.types import Message

from counterpose_core.errors import Cancelled
from counterpose_gateway.http.in_flight import while_connected


def _request(*messages: Message) -> Request:
    """A request whose client sends these messages and then waits."""
    left = list(messages)

    async def receive() -> Message:
        if not left:
            await asyncio.Event().wait()
        return left.pop(0)

    return Request({"type": "http", "method": "GET", "path": "/", "headers": []}, receive)


def test_work_is_cancelled_when_its_client_leaves() -> None:
    ended: list[str] = []

    async def work() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        return "never"

    request = _request({"type": "http.request", "body": b""}, {"type": "http.disconnect"})
    with pytest.raises(Cancelled, match="left"):
        asyncio.run(while_connected(request, work()))
    assert ended == ["cancelled"]


def test_a_client_that_waits_gets_the_answer() -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        return "found"

    assert asyncio.run(while_connected(_request(), work())) == "found"


def test_an_error_of_the_work_reaches_its_client() -> None:
    async def work() -> str:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        asyncio.run(while_connected(_request(), work()))
