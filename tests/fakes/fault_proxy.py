"""A TCP proxy between gateway and services that breaks connections in eight ways, while calls run."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, get_args

Toxic = Literal["latency", "bandwidth", "slicer", "limit_data", "reset_peer", "timeout", "slow_close", "down"]
TOXICS: tuple[Toxic, ...] = get_args(Toxic)
LATENCY_SECONDS, CLOSE_SECONDS = 2.0, 2.0
BYTES_PER_SECOND = 10_000
SLICE_BYTES, SLICE_SECONDS = 64, 0.002
LIMIT_BYTES = 100
CHUNK = 2**16


class FaultProxy:
    """Passes every connection to a port of this machine, until ``toxic`` says otherwise."""

    def __init__(self, upstream: int) -> None:
        self._upstream = upstream
        self.toxic: Toxic | None = None
        self.port = 0
        self._healed = asyncio.Event()
        # The loop forgets a connection that its client has closed, and with it what waits for the other side.
        self._serving: set[asyncio.Task[None] | None] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    async def _open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        # The loop may be closed next, and would destroy what is still pending.
        await asyncio.gather(*tasks, return_exceptions=True)

    def _call(self, work: object) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(100.0)  # type: ignore[arg-type]

    @contextmanager
    def broken(self, toxic: Toxic) -> Iterator[None]:
        """Break connections in this way until the block ends; a proxy that is down has no port."""
        self.toxic = toxic
        self._loop.call_soon_threadsafe(self._healed.clear)
        if toxic == "down":
            self._call(self._close())
        try:
            yield
        finally:
            self.toxic = None
            self._loop.call_soon_threadsafe(self._healed.set)
            if toxic == "down":
                self._call(self._open())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        self._serving.add(asyncio.current_task())
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
            writers.append(up_writer)
            asked = asyncio.create_task(self._pass(reader, up_writer))
            try:
                await self._pass(up_reader, writer, answers=True)
            finally:
                asked.cancel()
            if self.toxic == "slow_close":
                await asyncio.sleep(CLOSE_SECONDS)
        except (ConnectionError, asyncio.CancelledError):
            # Either side has gone, or the proxy is down.
            return
        finally:
            for each in writers:
                each.close()
            self._serving.discard(asyncio.current_task())

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool = False
    ) -> None:
        while data := await reader.read(CHUNK):
            toxic = self.toxic if answers else None
            if toxic == "reset_peer":
                # Closed with nothing left to linger for, a socket resets its connection.
                linger = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                writer.transport.abort()
                return
            if toxic == "timeout":
                await self._healed.wait()
                return
            if toxic == "limit_data":
                writer.write(data[:LIMIT_BYTES])
                return
            await asyncio.sleep(LATENCY_SECONDS if toxic == "latency" else 0.0)
            pause = {"slicer": SLICE_SECONDS, "bandwidth": SLICE_BYTES / BYTES_PER_SECOND}.get(toxic or "")
            size = len(data) if pause is None else SLICE_BYTES
            for start in range(0, len(data), size):
                writer.write(data[start : start + size])
                await writer.drain()
                await asyncio.sleep(pause or 0.0)


@contextmanager
def fault_proxy(upstream: int) -> Iterator[FaultProxy]:
    """Run a proxy to a port of this machine in a thread."""
    proxy = FaultProxy(upstream)
    proxy._thread.start()
    proxy._call(proxy._open())
    try:
        yield proxy
    finally:
        proxy._call(proxy._close())
        proxy._loop.call_soon_threadsafe(proxy._loop.stop)
        proxy._thread.join()
        proxy._loop.close()
