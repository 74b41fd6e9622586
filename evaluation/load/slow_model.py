"""``python -m evaluation.load.slow_model PORT``: a server in vLLM's place that answers after a fixed time.

It thinks of nothing and serves any number at once: what a call takes beyond that time is what lies between.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys

SECONDS = 0.3
CAPTION = "a photo of a blue boat on the sea"
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_END = b"\r\n\r\n"
_BODY = json.dumps({"choices": [{"index": 0, "text": CAPTION, "finish_reason": "stop"}]}).encode()
_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
    len(_BODY),
    _BODY,
)


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # TCP has no other
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(_END)
        found = _LENGTH.search(head)
        if end and len(body) >= int(found[1] if found else 0):
            self._received = b""
            asyncio.get_running_loop().call_later(0.0 if head.startswith(b"GET") else SECONDS, self._answer)

    def _answer(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(_ANSWER)


async def serve(port: int) -> None:
    """Answer on loopback until the process is ended."""
    server = await asyncio.get_running_loop().create_server(_Connection, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
