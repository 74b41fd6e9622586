"""Images that are read or uploaded: few at once, so that whoever asks for them leaves the others threads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from anyio.to_thread import current_default_thread_limiter

from counterpose_gateway.http.bounds import IMAGES_OF_ONE
from counterpose_gateway.http.server import ROUTE_THREADS
from counterpose_gateway.routes import datasets, exports
from counterpose_gateway.ui import image_files
from fakes.gateway import FakeGateway, fake_gateway
from fakes.processes import poll_until

MANY = 3 * ROUTE_THREADS


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[FakeGateway]:
    """A gateway with as few threads as one that serves."""
    current_default_thread_limiter().total_tokens = ROUTE_THREADS
    with ThreadPoolExecutor(ROUTE_THREADS) as threads:
        asyncio.get_running_loop().set_default_executor(threads)
        async with fake_gateway(tmp_path) as opened:
            yield opened


@pytest.mark.fault("B65")
@pytest.mark.parametrize(
    ("module", "work", "path"),
    [
        (exports, "png_of", "/v1/artifacts/{ref}.png"),
        (image_files, "png_of", "/ui/images/{ref}.png"),
        (image_files, "decode_image", "/ui/images/{ref}.webp"),
        (image_files, "shown_image", "/ui/images/made.webp?recipe={ref}/identity/0/0/512/-/-"),
        (datasets, "add_uploads", ""),
    ],
)
async def test_images_that_wait_leave_threads_for_all_that_is_not_an_image(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch, module: Any, work: str, path: str
) -> None:
    await gateway.upload("demo", 1)
    source, real = gateway.source("sled", 7), getattr(module, work)
    begun: list[None] = []
    free = Event()

    def waits(*args: Any, **kwargs: Any) -> Any:
        begun.append(None)
        free.wait(100)
        return real(*args, **kwargs)

    monkeypatch.setattr(module, work, waits)
    ref = gateway.ledger.datasets.sources("demo")[0].image
    ask: Callable[[], Any] = lambda: gateway.http.get(path.format(ref=ref))  # noqa: E731
    if not path:
        ask = lambda: gateway.http.post("/v1/datasets/demo/sources", json={"sources": [source]})  # noqa: E731
    reading = [asyncio.create_task(ask()) for _ in range(MANY)]
    try:
        await poll_until(lambda: len(begun) == IMAGES_OF_ONE)
        others = await asyncio.gather(*(gateway.http.get("/v1/datasets") for _ in range(MANY)))
        assert {answer.status_code for answer in others} == {200}
        assert len(begun) == IMAGES_OF_ONE
    finally:
        free.set()
    assert {answer.status_code for answer in await asyncio.gather(*reading)} == {200}
    assert len(begun) == MANY


async def test_images_of_clients_that_have_left_are_not_made(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that wait for a turn are forgotten; those that are being made keep theirs until they end."""
    await gateway.upload("demo", 1)
    ref, begun, free = gateway.ledger.datasets.sources("demo")[0].image, list[None](), Event()

    def waits(*args: Any) -> bytes:
        begun.append(None)
        free.wait(100)
        return b"an image"

    monkeypatch.setattr(exports, "png_of", waits)
    leaves = asyncio.Event()
    asked: dict[str, Any] = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET",
        "scheme": "http", "path": f"/v1/artifacts/{ref}.png", "raw_path": b"", "root_path": "",
        "query_string": b"", "headers": [(b"host", b"127.0.0.1:8080")], "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8080),
    }  # fmt: skip

    def reader() -> Any:
        said = iter([{"type": "http.request", "body": b"", "more_body": False}])

        async def receive() -> Any:
            if (message := next(said, None)) is not None:
                return message
            await leaves.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            pass

        return gateway.app({**asked, "state": {}}, receive, send)

    reading = [asyncio.create_task(reader()) for _ in range(MANY)]
    await poll_until(lambda: len(begun) == IMAGES_OF_ONE)
    leaves.set()
    await poll_until(lambda: sum(task.done() for task in reading) == MANY - IMAGES_OF_ONE)
    another = asyncio.create_task(gateway.http.get(asked["path"]))
    await asyncio.sleep(0.05)
    assert len(begun) == IMAGES_OF_ONE
    free.set()
    assert (await another).content == b"an image"
    await asyncio.gather(*reading)
    assert len(begun) == IMAGES_OF_ONE + 1
