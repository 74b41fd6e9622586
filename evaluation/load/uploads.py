"""Uploads: how fast images are taken in, in how much memory, and how many bytes are kept (L9, H3, M4)."""

from __future__ import annotations

import base64
import io
import itertools
import socket
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import numpy as np
import numpy.typing as npt
from PIL import Image

from evaluation.load.bare_gateway import ServedGateway, served_gateway
from evaluation.load.measuring import Load, row
from evaluation.load.report import Growth, LoadRow

GROUP = "uploads"
CLIENTS, IMAGES = 8, 64
SHAPE = (1224, 1632)
"""Two megapixels."""
MB_PER_SECOND, MEMORY_MIB = 15.0, 400.0
FLAT_IMAGES, FLAT_SIDE, FLAT_MB = 12, 4000, 5.0
HELD_CONNECTIONS, HELD_BYTES, HELD_MIB = 20, 24_000_000, 80.0


def uploads(load: Load) -> Iterator[LoadRow | Growth]:
    """Yield rates and memory of 64 photographs by 8 clients, bytes kept of flat images, and held bodies."""
    for kind in ("PNG", "JPEG"):
        yield from _photographs(load, kind)
    yield from _flat_images(load)
    yield from _held_bodies(load)


def _photographs(load: Load, kind: str) -> Iterator[LoadRow]:
    files = _files(kind, 16 if load.quick else IMAGES)
    with served_gateway(load.folder / kind) as gateway:
        rest = gateway.memory()
        gateway.forget_peak()
        start, used = time.perf_counter(), gateway.processor_seconds()
        added = _send(gateway, files)
        took, peak = time.perf_counter() - start, gateway.peak()
        used = gateway.processor_seconds() - used
    if added != len(files):
        raise RuntimeError(f"{added} of {len(files)} images were taken in; look at the gateway's log")
    what = f"{len(files)} {kind} files of 2 MP by {CLIENTS} clients"
    rate = sum(map(len, files)) / 1e6 / took
    # A JPEG has a fifth of a PNG's bytes, and as many pixels to decode and to pack.
    target = MB_PER_SECOND if kind == "PNG" else None
    yield row(GROUP, f"{what}: files", "MB/s", [rate], meets=("L9",), target=target, side="at least")
    yield row(GROUP, f"{what}: images", "images/s", [len(files) / took], meets=("L9",))
    yield row(GROUP, f"{what}: processor time of a file", "s", [used / len(files)], meets=("L9",))
    yield row(GROUP, f"{what}: peak memory", "MiB", [peak], meets=("L9",), target=MEMORY_MIB)
    yield row(GROUP, f"{what}: memory above rest", "MiB", [peak - rest], meets=("L9",))


def _flat_images(load: Load) -> Iterator[LoadRow]:
    files = []
    for number in range(3 if load.quick else FLAT_IMAGES):
        image = Image.new("RGB", (FLAT_SIDE - number, FLAT_SIDE), (number, 0, 0))
        files.append(_saved(image, "WEBP", lossless=True))
    with served_gateway(load.folder / "flat") as gateway:
        start = time.perf_counter()
        added = _send(gateway, files, clients=1)
        took, stored = time.perf_counter() - start, gateway.stored_bytes() / 1e6
    if added != len(files):
        raise RuntimeError(f"{added} of {len(files)} images were taken in; look at the gateway's log")
    what = f"{len(files)} images of {FLAT_SIDE} x {FLAT_SIDE} in one colour, {sum(map(len, files)):,} bytes"
    yield row(GROUP, f"{what}: on disk", "MB", [stored], meets=("H3",), target=FLAT_MB)
    yield row(GROUP, f"{what}: taken in", "s", [took], meets=("H3",))


def _held_bodies(load: Load) -> Iterator[LoadRow]:
    length = f"content-length: {HELD_BYTES + 1}\r\n\r\n"
    head = f"POST /v1/datasets HTTP/1.1\r\nhost: localhost\r\n{length}".encode()
    with served_gateway(load.folder / "held") as gateway, ExitStack() as opened:
        rest = gateway.memory()
        connections = [
            opened.enter_context(socket.create_connection(("127.0.0.1", gateway.port), timeout=30))
            for _ in range(HELD_CONNECTIONS)
        ]
        statuses = [_hold(connection, head) for connection in connections]
        held = gateway.memory() - rest
    what = f"{HELD_CONNECTIONS} bodies of {HELD_BYTES // 10**6} MB that are held back"
    yield row(GROUP, f"{what}: memory", "MiB", [held], meets=("M4",), target=HELD_MIB)
    refused = sum(status == 429 for status in statuses)
    yield row(GROUP, f"{what}: refused", "connections", [refused], meets=("M4",), target=1, side="at least")


def _hold(connection: socket.socket, head: bytes) -> int | None:
    """Send all of a body but its last byte; return the status of an early answer."""
    connection.sendall(head)
    try:
        connection.sendall(b" " * HELD_BYTES)
        connection.settimeout(0.5)
        answer = connection.recv(65_536)
    except TimeoutError:
        return None
    except OSError:
        return _early(connection)
    return int(answer.split(b" ", 2)[1]) if answer else None


def _early(connection: socket.socket) -> int | None:
    try:
        answer = connection.recv(65_536)
    except OSError:
        return None
    return int(answer.split(b" ", 2)[1]) if answer else None


def _send(gateway: ServedGateway, files: Sequence[bytes], *, clients: int = CLIENTS) -> int:
    """Upload the files one a request, as many clients at once; return the number of images added."""
    httpx.post(f"{gateway.url}/v1/datasets", json={"name": "demo"}).raise_for_status()
    shares = [list(itertools.islice(enumerate(files), start, None, clients)) for start in range(clients)]
    with ThreadPoolExecutor(clients) as pool:
        return sum(pool.map(lambda share: _send_share(gateway, share), shares))


def _send_share(gateway: ServedGateway, share: Sequence[tuple[int, bytes]]) -> int:
    added = 0
    with httpx.Client(base_url=gateway.url, timeout=120) as http:
        for number, file in share:
            content = base64.b64encode(file).decode()
            source = {"filename": f"{number}.png", "label": "sled", "content_base64": content}
            answer = http.post("/v1/datasets/demo/sources", json={"sources": [source]})
            added += answer.raise_for_status().json()["added"]
    return added


def _files(kind: str, number: int) -> list[bytes]:
    """Return different files like photographs: smooth, with the noise of a sensor."""
    generator = np.random.default_rng(0)
    height, width = SHAPE
    coarse = generator.normal(size=(height // 8, width // 8, 3)).cumsum(0).cumsum(1)
    levels = ((coarse - coarse.min()) / np.ptp(coarse) * 255).astype(np.uint8)
    smooth = np.asarray(Image.fromarray(levels).resize((width, height), Image.Resampling.BICUBIC)).astype(int)
    options = {"compress_level": 1} if kind == "PNG" else {"quality": 92}
    return [_saved(_noisy(smooth, generator), kind, **options) for _ in range(number)]


def _noisy(smooth: npt.NDArray[np.int_], generator: np.random.Generator) -> Image.Image:
    noise = generator.integers(-4, 5, smooth.shape)
    return Image.fromarray(np.clip(smooth + noise, 0, 255).astype(np.uint8))


def _saved(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()
