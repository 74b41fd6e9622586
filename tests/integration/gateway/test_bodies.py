"""Bodies are bounded together: those that are held at once cannot fill the memory, whatever their number."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType

import pytest
from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.types import Message

from counterpose_core.errors import Cancelled, CounterposeError, PayloadTooLarge, RateLimited
from counterpose_gateway.http.bodies import LARGE, Bodies, Limit
from counterpose_gateway.http.bounds import bodies_together
from counterpose_gateway.settings import GatewaySettings
from fakes.gateway import fake_gateway
from fakes.problems import problem

NONE = Headers({})
LIMIT = Limit(100, "COUNTERPOSE_MAX_BODY_BYTES")


class Client:
    """Sends parts of a body, and then waits until the test lets it go on."""

    def __init__(self, *parts: bytes, leaves: bool = False) -> None:
        self.parts = list(parts)
        self.leaves = leaves
        self.goes_on = asyncio.Event()

    async def receive(self) -> Message:
        """Return the next part."""
        if not self.parts:
            if self.leaves:
                return {"type": "http.disconnect"}
            await self.goes_on.wait()
            return {"type": "http.request", "body": b"", "more_body": False}
        return {"type": "http.request", "body": self.parts.pop(0), "more_body": True}


async def hold(bodies: Bodies, client: Client) -> None:
    """Read a body and let it go."""
    async with bodies.reading(NONE, client.receive, LIMIT):
        pass


async def test_bodies_that_are_held_at_once_are_bounded_and_their_room_returns() -> None:
    bodies = Bodies(bodies_together(150))
    slow = Client(b"a" * 80)
    first = asyncio.create_task(hold(bodies, slow))
    await asyncio.sleep(0)
    with pytest.raises(RateLimited, match=r"150 bytes .*COUNTERPOSE_MAX_BODIES_BYTES"):
        await hold(bodies, Client(b"b" * 40, b"b" * 40))
    slow.goes_on.set()
    await first
    for _ in range(3):
        fast = Client(b"c" * 90)
        fast.goes_on.set()
        await hold(bodies, fast)


@pytest.mark.parametrize(
    ("client", "error"),
    [(Client(b"a" * 60, b"a" * 60), PayloadTooLarge), (Client(b"a" * 60, leaves=True), Cancelled)],
    ids=["too large", "left"],
)
async def test_the_room_of_a_body_that_was_not_read_whole_returns(
    client: Client, error: type[CounterposeError]
) -> None:
    bodies = Bodies(bodies_together(100))
    with pytest.raises(error):
        await hold(bodies, client)
    fast = Client(b"c" * 100)
    fast.goes_on.set()
    await hold(bodies, fast)


async def test_requests_with_large_bodies_take_turns_and_small_ones_do_not_wait() -> None:
    bodies, limit = (
        Bodies(bodies_together(10 * LARGE), at_once=2),
        Limit(2 * LARGE, "COUNTERPOSE_MAX_BODY_BYTES"),
    )
    answering, most, ends = 0, 0, asyncio.Event()

    async def answer(size: int) -> None:
        nonlocal answering, most
        client = Client(b"a" * size)
        client.goes_on.set()
        async with bodies.reading(NONE, client.receive, limit):
            if size > LARGE:
                answering += 1
                most = max(most, answering)
                await ends.wait()
                answering -= 1

    large = [asyncio.create_task(answer(LARGE + 1)) for _ in range(5)]
    async with asyncio.timeout(100):
        while answering < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    # Enough turns of the loop for the other three, which must wait.
    for _ in range(100):
        await asyncio.sleep(0)
    assert answering == 2
    await answer(LARGE)
    ends.set()
    await asyncio.gather(*large)
    assert most == 2


async def test_a_refused_body_is_let_go_though_its_error_is_kept() -> None:
    client = Client(b"a" * 60, b"a" * 60)
    with pytest.raises(PayloadTooLarge) as refused:
        await hold(Bodies(bodies_together(100)), client)
    frames: TracebackType | None = refused.tb
    held = 0
    while frames is not None:
        held += sum(len(one) for one in frames.tb_frame.f_locals.get("chunks") or ())
        frames = frames.tb_next
    assert held == 0


async def test_a_body_is_passed_on_whole_once_and_then_forgotten() -> None:
    client = Client(b"ab", b"cd")
    client.goes_on.set()
    async with Bodies(bodies_together(100)).reading(NONE, client.receive, LIMIT) as body:
        assert await body.replay() == {"type": "http.request", "body": b"abcd", "more_body": False}
        client.leaves = True
        assert await body.replay() == {"type": "http.disconnect"}


async def test_a_request_beyond_the_bound_is_told_to_retry_later(tmp_path: Path) -> None:
    headers = {"content-type": "application/json"}
    held, waiting = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield b" " * 1500
        held.set()
        await waiting.wait()
        yield b'{"name": "slow"}'

    async with fake_gateway(tmp_path, max_body_bytes=2000, max_bodies_bytes=2000) as gateway:
        first = asyncio.create_task(gateway.http.post("/v1/datasets", content=slow(), headers=headers))
        await held.wait()
        body = b" " * 600 + b'{"name": "fast"}'
        refused = await gateway.http.post("/v1/datasets", content=body, headers=headers)
        assert "COUNTERPOSE_MAX_BODIES_BYTES" in problem(refused, 429, "rate-limited").detail
        assert int(refused.headers["retry-after"]) > 0
        waiting.set()
        assert (await first).status_code == 201
        again = await gateway.http.post("/v1/datasets", content=body, headers=headers)
        assert again.status_code == 201


def test_all_bodies_together_may_be_no_less_than_one() -> None:
    with pytest.raises(ValidationError, match="COUNTERPOSE_MAX_BODIES_BYTES"):
        GatewaySettings(max_body_bytes=5000, max_bodies_bytes=4000)
