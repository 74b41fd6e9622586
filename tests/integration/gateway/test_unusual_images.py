"""Unusual but valid images are accepted, converted consistently and stripped of metadata."""

from __future__ import annotations

import base64
import io
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
from PIL import Image

from counterpose_core.contract.datasets import Source
from counterpose_core.images.codecs import Pixels, decode_image, encode_raw
from fakes.gateway import FakeGateway, fake_gateway

pytestmark = pytest.mark.asyncio(loop_scope="module")
NOISE: Pixels = np.random.default_rng(0).integers(0, 256, (12, 20, 3), dtype=np.uint8)
ORIENTATION, GPS, MAKE = 0x0112, 0x8825, 0x010F


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FakeGateway]:
    """One gateway for all tests: each upload creates its own dataset."""
    async with fake_gateway(tmp_path_factory.mktemp("gateway")) as opened:
        yield opened


async def taken(gateway: FakeGateway, *files: bytes, names: tuple[str, ...] = ("a.png",)) -> list[Source]:
    """Upload files that must all be taken, and return their sources."""
    dataset = f"demo-{uuid.uuid4().hex}"
    await gateway.http.post("/v1/datasets", json={"name": dataset})
    sources = [
        {"filename": name, "label": "sled", "content_base64": base64.b64encode(content).decode()}
        for content in files
        for name in names
    ]
    answer = await gateway.http.post(f"/v1/datasets/{dataset}/sources", json={"sources": sources})
    assert answer.json() == {"added": len(sources), "rejected": []}
    return gateway.ledger.datasets.sources(dataset)


def file_of(image: Image.Image, format: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format=format, **options)
    return buffer.getvalue()


def see_through() -> Image.Image:
    image = Image.fromarray(np.arange(256, dtype=np.uint8).reshape(16, 16)).convert("P")
    image.info["transparency"] = bytes(range(256))
    return image


def exif_of(tags: Mapping[int, object]) -> Image.Exif:
    exif = Image.Exif()
    exif.update(tags)
    return exif


each_format = pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP"])
UNUSUAL: dict[str, Callable[[], bytes]] = {
    "CMYK": lambda: file_of(Image.new("CMYK", (16, 16), (0, 255, 255, 0)), "JPEG"),
    "16 bit": lambda: file_of(Image.fromarray(np.arange(256).astype(np.uint16).reshape(16, 16) * 257), "PNG"),
    "1 bit": lambda: file_of(Image.new("1", (16, 16), 1), "PNG"),
    "palette and alpha": lambda: file_of(see_through(), "PNG"),
    "LA": lambda: file_of(Image.new("LA", (16, 16), (0, 128)), "PNG"),
    "grey": lambda: file_of(Image.new("L", (16, 16), 9), "JPEG"),
    "colour and alpha": lambda: file_of(Image.new("RGBA", (16, 16), (9, 8, 7, 6)), "WEBP", lossless=True),
}


@pytest.mark.fault("B13")
@pytest.mark.parametrize("kind", UNUSUAL)
async def test_an_unusual_mode_is_accepted_and_converted_consistently(
    gateway: FakeGateway, kind: str
) -> None:
    content = UNUSUAL[kind]()
    first, second = await taken(gateway, content, names=("a.png", "b.png"))
    assert first.image == second.image
    assert decode_image(gateway.store.get(first.image)).shape == (16, 16, 3)


@pytest.mark.fault("B14")
@each_format
async def test_an_exif_rotation_is_applied_once_from_upload_to_download(
    gateway: FakeGateway, format: str
) -> None:
    exif = exif_of({ORIENTATION: 6})
    options = {"lossless": True} if format == "WEBP" else {}
    (source,) = await taken(gateway, file_of(Image.fromarray(NOISE), format, exif=exif, **options))
    upright = np.rot90(decode_image(file_of(Image.fromarray(NOISE), format, **options)), -1)
    assert (source.width, source.height) == (12, 20)
    np.testing.assert_array_equal(decode_image(gateway.store.get(source.image)), upright)
    shown = (await gateway.http.get(f"/v1/artifacts/{source.image}.png")).content
    np.testing.assert_array_equal(decode_image(shown), upright)


@pytest.mark.fault("B15")
@each_format
async def test_location_and_camera_of_an_image_are_neither_stored_nor_shown(
    gateway: FakeGateway, format: str
) -> None:
    place = {1: "N", 2: (48.0, 8.0, 14.0), 3: "E", 4: (11.0, 34.0, 31.0)}
    exif = exif_of({MAKE: "a camera in a secret place", GPS: place})
    content = file_of(Image.fromarray(NOISE), format, exif=exif)
    assert dict(Image.open(io.BytesIO(content)).getexif().get_ifd(GPS))
    (source,) = await taken(gateway, content)
    assert gateway.store.get(source.image) == encode_raw(decode_image(content))
    shown = (await gateway.http.get(f"/v1/artifacts/{source.image}.png")).content
    with Image.open(io.BytesIO(shown)) as image:
        assert not image.getexif()
    assert b"secret place" not in shown


@pytest.mark.fault("B16")
@each_format
async def test_a_wrong_file_extension_changes_nothing(gateway: FakeGateway, format: str) -> None:
    content = file_of(Image.fromarray(NOISE), format)
    for source in await taken(gateway, content, names=("a.png", "a.jpg", "a.webp", "a.gif", "a")):
        np.testing.assert_array_equal(decode_image(gateway.store.get(source.image)), decode_image(content))
