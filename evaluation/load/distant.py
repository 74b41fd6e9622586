"""``python -m evaluation.load.distant PORT TARGET SECONDS``: a way to a port of this machine that takes time.

What is sent arrives after half of ``SECONDS``, in either direction: a round trip as between two machines.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys


class Distance:
    """Passes on what it gets, later."""

    def __init__(self, target: int, seconds: float) -> None:
        self._target = target
        self._one_way = seconds / 2

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until either side ends it."""
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        await asyncio.gather(self._pass(reader, far_writer), self._pass(far_reader, writer))

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65_536):
                loop.call_later(self._one_way, sink.write, data)
        loop.call_later(self._one_way, sink.close)


async def _serve(port: int, target: int, seconds: float) -> None:
    server = await asyncio.start_server(Distance(target, seconds).connected, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
