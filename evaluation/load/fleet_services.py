"""``python -m evaluation.load.fleet_services STORE PORT SECONDS SLOTS``: services that cost next to nothing.

They answer as the fakes of the tests do, but every image they make is one of two that are stored already, and
equal requests are answered from memory: what is measured is the worker and its ledger. A call to the editor
takes ``SECONDS``, on one of ``SLOTS`` replicas; 0 seconds for an answer at once.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import httpx
import uvicorn

from counterpose_core.blobs import BlobStore
from fakes.ports import FakeEditor, fake_services
from fakes.service_http import Handler, served
from fakes.store import image
from fakes.world import CAPTION, FakeWorld, Shown

LABEL = "sled"
"""The class of every source."""
REMEMBERED = 2_000

_Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class AnyShown(dict[str, Shown]):
    """What images show: every source the same."""

    def __missing__(self, ref: str) -> Shown:
        return Shown(LABEL, CAPTION.format(label=LABEL))


class StoredEditor(FakeEditor):
    """Names stored images instead of drawing new ones."""

    def __init__(self, world: FakeWorld, stored: tuple[str, str]) -> None:
        super().__init__(world)
        self._stored = stored

    def _draw(self, source: str, caption: str, strength: float | None) -> str:
        # An edit and its source must differ, as the worker would find out.
        return self._stored[strength is not None]


class FleetServices:
    """The five services as an ASGI application."""

    def __init__(self, store: BlobStore, seconds: float, slots: int) -> None:
        stored = (store.put(image("reconstruction")), store.put(image("edit")))
        world = FakeWorld(shown=AnyShown())
        self._handle: Handler = served(fake_services(world, editor=StoredEditor(world, stored)))
        self._seconds = seconds
        self._slots = asyncio.Semaphore(slots)
        self._calls: Counter[str] = Counter()
        self._known: OrderedDict[tuple[str, bytes], bytes] = OrderedDict()

    async def __call__(self, scope: MutableMapping[str, Any], receive: _Receive, send: _Send) -> None:
        """Answer one request."""
        path, body, more = scope["path"], b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        if self._seconds and path.startswith("/editor/v1/"):
            async with self._slots:
                await asyncio.sleep(self._seconds)
        status, content = await self._answer(path, body)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    async def _answer(self, path: str, body: bytes) -> tuple[int, bytes]:
        if path == "/calls":
            return 200, json.dumps(self._calls).encode()
        self._calls[path] += 1
        service = path.split("/")[1]
        if path == f"/{service}/healthz":
            return 200, b'{"service": "%s", "ready": true}' % service.encode()
        known = self._known.get((path, body))
        if known is not None:
            return 200, known
        method = "GET" if path == "/classifiers/v1/classifiers" else "POST"
        found = self._handle(httpx.Request(method, f"http://services{path}", content=body))
        answer = found if isinstance(found, httpx.Response) else await found
        if answer.is_success:
            self._known[path, body] = answer.content
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return answer.status_code, answer.content


def main(store: str, port: str, seconds: str, slots: str) -> None:
    """Serve until killed."""
    services = FleetServices(BlobStore(store), float(seconds), int(slots))
    config = uvicorn.Config(
        services, host="127.0.0.1", port=int(port), access_log=False, log_config=None, lifespan="off",
        timeout_keep_alive=600,
    )  # fmt: skip
    asyncio.run(uvicorn.Server(config).serve())


if __name__ == "__main__":
    main(*sys.argv[1:])
