"""A gateway over fake services on a real socket, whose worker works as far as the test says."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import uvicorn

from fakes.gateway import FakeGateway, fake_gateway

T = TypeVar("T")


class ServedGateway:
    """A gateway in a thread of its own; ``call`` runs a coroutine beside it and waits for the outcome."""

    def __init__(self, gateway: FakeGateway, loop: asyncio.AbstractEventLoop, port: int) -> None:
        self.gateway = gateway
        self.port = port
        self.address = f"http://127.0.0.1:{port}"
        self._loop = loop
        self._worker = gateway.worker(concurrency=1)

    def call(self, work: Coroutine[Any, Any, T], seconds: float = 120.0) -> T:
        """Run a coroutine in the gateway's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds)

    def work(self, groups: int | None = None) -> None:
        """Process so many item groups, or all that there are."""
        self.call(self._worker.work_off() if groups is None else self._work(groups))

    @contextmanager
    def working(self) -> Iterator[None]:
        """Let a worker take whatever comes, for a program that waits for its run."""
        stop = asyncio.Event()
        working = asyncio.run_coroutine_threadsafe(self._worker.work(stop), self._loop)
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(stop.set)
            working.result(100)

    async def _work(self, groups: int) -> None:
        for _ in range(groups):
            work = await self._worker._next_work()
            if work is None:
                return
            await work


@contextmanager
def served_gateway(folder: Path, **settings: Any) -> Iterator[ServedGateway]:
    """Open a gateway with its state in ``folder`` on a free port, and close it."""
    opened: dict[str, Any] = {}
    ready = threading.Event()

    async def serve() -> None:
        async with fake_gateway(folder, **settings) as gateway:
            transport = gateway.http._transport
            assert isinstance(transport, httpx.ASGITransport)
            config = uvicorn.Config(
                transport.app, host="127.0.0.1", port=0, access_log=False, log_config=None
            )  # fmt: skip
            server = uvicorn.Server(config)
            serving = asyncio.create_task(server.serve())
            # Uvicorn has no event for it.
            while not server.started:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            port = server.servers[0].sockets[0].getsockname()[1]
            opened.update(
                server=server, served=ServedGateway(gateway, asyncio.get_running_loop(), port)
            )  # fmt: skip
            ready.set()
            await serving

    # Not a daemon: a server that does not stop is a defect, which the test must show.
    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(100)
        yield opened["served"]
    finally:
        if "server" in opened:
            opened["server"].should_exit = True
        thread.join(100)
