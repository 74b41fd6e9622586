"""Many HTTP clients in one thread, cheap enough not to be what is measured."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain

HOST = "127.0.0.1"
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
_EVENT = re.compile(rb"^id: (\d+)", re.MULTILINE)
_END = b"\r\n\r\n"
IDLE_SECONDS = 2.0
"""For which a connection may be idle; the gateway keeps it for 5 s."""
LOST = 0
"""The status of a request whose connection broke."""


def request(method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> bytes:
    """Return the bytes of a request."""
    content = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", f"host: {HOST}"]
    if content:
        lines += ["content-type: application/json", f"content-length: {len(content)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join(lines).encode() + _END + content


@dataclass(frozen=True)
class Answer:
    """The answer to a request: its status, `LOST` without one; the seconds it took; and its body."""

    status: int
    seconds: float
    body: bytes


class Connection(asyncio.Protocol):
    """A connection that is kept and carries one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answered: asyncio.Future[tuple[int, bytes]] | None = None
        self._received = b""

    @classmethod
    async def open(cls, port: int) -> Connection:
        """Open a connection."""
        _, connection = await asyncio.get_running_loop().create_connection(cls, HOST, port)
        return connection

    @property
    def is_open(self) -> bool:
        """Whether another request can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    async def ask(self, sent: bytes, since: float | None = None) -> Answer:
        """Send a request and wait for its answer, timed from ``since``, by default from now."""
        begun = time.perf_counter() if since is None else since
        assert self._transport is not None  # `open` returns a connection that was made
        self._answered = asyncio.get_running_loop().create_future()
        self._transport.write(sent)
        try:
            status, body = await self._answered
        except ConnectionError:
            status, body = LOST, b""
        return Answer(status, time.perf_counter() - begun, body)

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)  # TCP has no other
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Complete the answer if this is its end."""
        self._received += data
        head, end, body = self._received.partition(_END)
        found = _LENGTH.search(head)
        if not end or len(body) < int(found[1] if found else 0):
            return
        self._received = b""
        if self._answered is not None and not self._answered.done():
            self._answered.set_result((int(head[9:12]), body))

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the request that waits, if any."""
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(ConnectionResetError())


async def ask_in_turn(port: int, sent: bytes, *, connections: int, seconds: float) -> list[Answer]:
    """Let each of some connections ask again as soon as it has its answer."""
    until = time.perf_counter() + seconds

    async def one() -> list[Answer]:
        connection, answers = await Connection.open(port), []
        while time.perf_counter() < until:
            answers.append(await connection.ask(sent))
        connection.close()
        return answers

    return list(chain.from_iterable(await asyncio.gather(*(one() for _ in range(connections)))))


async def ask_at_rate(
    port: int, make: Callable[[int], bytes], *, rate: float, seconds: float, connections: int
) -> list[Answer]:
    """Send requests at a rate whatever becomes of them, each on a free connection or a new one.

    Times count from when a request was due, even if it waited for one of so many ``connections``: neither a
    late client nor a full one makes an answer look quick.
    """
    free: list[tuple[Connection, float]] = []
    places = asyncio.Semaphore(connections)
    begun = time.perf_counter()

    async def one(number: int, due: float) -> Answer:
        async with places:
            return await asked_for(number, due)

    async def asked_for(number: int, due: float) -> Answer:
        connection, used_at = free.pop() if free else (None, 0.0)
        # A server closes an idle connection, perhaps while a request is on its way.
        if connection is None or not connection.is_open or time.perf_counter() - used_at > IDLE_SECONDS:
            if connection is not None:
                connection.close()
            try:
                connection = await Connection.open(port)
            except OSError:
                return Answer(LOST, time.perf_counter() - due, b"")
        answer = await connection.ask(make(number), due)
        free.append((connection, time.perf_counter()))
        return answer

    asked = []
    with _no_collections():
        for number in range(round(rate * seconds)):
            due = begun + number / rate
            if (early := due - time.perf_counter()) > 0:
                await asyncio.sleep(early)
            asked.append(asyncio.create_task(one(number, due)))
        answers = await asyncio.gather(*asked)
    for connection, _ in free:
        connection.close()
    return list(answers)


@contextmanager
def _no_collections() -> Iterator[None]:
    """Keep the garbage collector away: over 100,000 answers it stops this client for a fifth of a second."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def poll_regularly(
    port: int, sent: bytes, *, pollers: int, pause: float, seconds: float
) -> list[Answer]:
    """Let pollers ask, each on its connection and each ``pause`` seconds after its last answer."""
    until = time.perf_counter() + seconds

    async def one(number: int) -> list[Answer]:
        connection, answers = await Connection.open(port), []
        await asyncio.sleep(pause * number / pollers)
        while time.perf_counter() < until:
            answers.append(await connection.ask(sent))
            await asyncio.sleep(pause)
        connection.close()
        return answers

    return list(chain.from_iterable(await asyncio.gather(*(one(number) for number in range(pollers)))))


@dataclass(eq=False)
class Listener(asyncio.Protocol):
    """A client of an event stream: which events came, each with the time at which it was read."""

    path: str
    seen: list[tuple[int, float]] = field(default_factory=list)
    ended: bool = False
    _rest: bytes = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the stream."""
        assert isinstance(transport, asyncio.Transport)  # TCP has no other
        transport.write(request("GET", self.path, headers={"connection": "close"}))

    def data_received(self, data: bytes) -> None:
        """Note the events that are complete."""
        now = time.time()
        whole, _, self._rest = (self._rest + data).rpartition(_END)
        self.seen += [(int(number), now) for number in _EVENT.findall(whole)]

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end."""
        self.ended = True


async def listen(port: int, path: str, listeners: int) -> Sequence[Listener]:
    """Open event streams, a few at a time, and return when each has its first event."""
    opened: list[Listener] = []
    for _ in range(listeners):
        _, listener = await asyncio.get_running_loop().create_connection(lambda: Listener(path), HOST, port)
        opened.append(listener)
    # Nothing else happens meanwhile, and a condition would be told at each of a million events.
    while not all(listener.seen for listener in opened):  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    return opened
