"""A thousand sockets without a key, of ten shapes, beside a reader with one."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import time
from collections.abc import Iterator

import httpx

from evaluation.load.bare_gateway import ServedGateway, served_gateway
from evaluation.load.measuring import Load, quantile, row
from evaluation.load.report import LoadRow

GROUP = "sockets"
SOCKETS, ROUNDS, ROUND_SECONDS, HELD_SECONDS = 1000, 3, 10.0, 5.0
MOST_TIMES = 3.0
KEY = "a-key-of-thirty-two-letters-here"
_FORM = b"content-type: application/x-www-form-urlencoded\r\ncontent-length: 5000\r\n\r\nkey="

SHAPES = (
    b"",
    b"GET /v1/ru",
    b"GET /v1/runs HTTP/1.1\r\nhost: localhost\r\nx-long: ",
    b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n{",
    b"POST /ui/login HTTP/1.1\r\nhost: localhost\r\norigin: http://localhost\r\n" + _FORM,
    b"POST /v1/runs HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n5\r\nabc",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET /ui/login HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n" * 20,
    b"POST /v1/gates HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n",
)
"""What each sends at once; then it sends nothing more, and reads nothing, until another takes its place."""


def sockets(load: Load) -> Iterator[LoadRow]:
    """Yield the reader's waits alone and beside the sockets, in turn within the same minutes."""
    rounds = 1 if load.quick else ROUNDS
    with served_gateway(load.folder / GROUP, api_keys=KEY, refused_keys_per_minute=0) as gateway:
        idle, beside, refused = asyncio.run(_rounds(gateway, rounds))
    pairs = [
        quantile(attacked, 0.99) / quantile(alone, 0.99) for alone, attacked in zip(idle, beside, strict=True)
    ]
    name = f"a reader's p99 beside {SOCKETS} sockets without a key, over alone in the same minute"
    yield row(GROUP, name, "times", pairs, meets=("H2",), target=MOST_TIMES)
    name = f"answers to a reader beside {SOCKETS} sockets that were not 200"
    yield row(GROUP, name, "answers", [refused], meets=("H2",), target=0, n=sum(map(len, beside)))


async def _rounds(gateway: ServedGateway, rounds: int) -> tuple[list[list[float]], list[list[float]], int]:
    idle, beside, refused = [], [], 0
    headers = {"authorization": f"Bearer {KEY}"}
    async with httpx.AsyncClient(base_url=gateway.url, headers=headers, timeout=60, trust_env=False) as http:
        await _reads(http)
        for _ in range(rounds):
            idle.append((await _reads(http))[0])
            # In a process of its own, or the reader would wait for the sockets' own turns.
            attack = multiprocessing.get_context("spawn").Process(target=_attack, args=(gateway.port,))
            attack.start()
            await asyncio.sleep(2 * HELD_SECONDS)
            waits, wrong = await _reads(http)
            beside.append(waits)
            refused += wrong
            attack.kill()
            attack.join()
            await asyncio.sleep(2.0)
    return idle, beside, refused


def _attack(port: int) -> None:
    async def hold_all() -> None:
        await asyncio.gather(*(_hold(port, number) for number in range(SOCKETS)))

    asyncio.run(hold_all())


async def _hold(port: int, number: int) -> None:
    """Keep one socket of a shape open, and open another after some seconds; not all at one time."""
    await asyncio.sleep(HELD_SECONDS * number / SOCKETS)
    while True:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
            try:
                writer.write(SHAPES[number % len(SHAPES)])
                await asyncio.sleep(HELD_SECONDS)
            finally:
                writer.transport.abort()
        await asyncio.sleep(0.1)


async def _reads(http: httpx.AsyncClient) -> tuple[list[float], int]:
    """Ask for the runs for some seconds; return the milliseconds of each answer, and how many were none."""
    waits, wrong, end = list[float](), 0, time.perf_counter() + ROUND_SECONDS
    while (start := time.perf_counter()) < end:
        answer = await http.get("/v1/runs?limit=10")
        waits.append(1000.0 * (time.perf_counter() - start))
        wrong += answer.status_code != 200
        await asyncio.sleep(0.02)
    return waits, wrong
