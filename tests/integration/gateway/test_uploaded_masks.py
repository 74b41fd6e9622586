"""Masks that come with images: which are refused, what an alpha channel says, and what the ledger keeps."""

from __future__ import annotations

import base64
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image, ImageFilter

from counterpose_core.image_recipes import shown_image
from fakes.gateway import FakeGateway, fake_gateway

SIDE = 96


def png(image: Image.Image) -> str:
    file = io.BytesIO()
    image.save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def photograph(number: int) -> Image.Image:
    pixels = np.random.default_rng(number).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def square(left: int = 30, size: int = SIDE) -> Image.Image:
    mask = Image.new("L", (size, size))
    mask.paste(255, (left, 30, left + 30, 60))
    return mask


def source(label: str, number: int, **more: object) -> dict[str, Any]:
    own = {"filename": f"{number}.png", "label": label, "content_base64": png(photograph(number))}
    return own | {"mask_base64": png(square())} | more


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[FakeGateway]:
    async with fake_gateway(tmp_path) as made:
        yield made


async def uploaded(gateway: FakeGateway, sources: list[dict[str, Any]]) -> httpx.Response:
    await gateway.http.post("/v1/datasets", json={"name": "demo"})
    return await gateway.http.post("/v1/datasets/demo/sources", json={"sources": sources})


@pytest.mark.parametrize(
    ("given", "field", "sentence"),
    [
        ({"mask_base64": png(square(size=80))}, "mask_base64", "80 x 80 pixels, but its image 96 x 96"),
        ({"mask_base64": png(Image.new("L", (SIDE, SIDE)))}, "mask_base64", "empty: no object is in it"),
        ({"mask_base64": png(Image.new("L", (SIDE, SIDE), 1))}, "mask_base64", "its lightest value is 1"),
        ({"mask_base64": png(Image.new("L", (SIDE, SIDE), 255))}, "mask_base64", "full: no background"),
        ({"mask_base64": base64.b64encode(b"none").decode()}, "mask_base64", "not an image"),
        ({"mask_base64": "???"}, "mask_base64", "unreadable or not base64"),
        (
            {"outline": {"width": SIDE, "height": SIDE, "polygons": [[10, 10, 200, 10, 10, 200]]}},
            "outline",
            "leaves the image",
        ),
        (
            {"outline": {"width": 640, "height": 480, "polygons": [[1, 1, 9, 1, 1, 9]]}},
            "outline",
            "640 x 480 pixels, but its image 96 x 96",
        ),
        (
            {"outline": {"width": SIDE, "height": SIDE, "polygons": [[0, 0, 95, 0, 95, 95, 0, 95]]}},
            "outline",
            "full: no background",
        ),
    ],
)
async def test_a_mask_that_cannot_be_its_image_s_is_refused_with_the_image(
    gateway: FakeGateway, given: dict[str, Any], field: str, sentence: str
) -> None:
    bad = source("sled", 1, mask_base64=None) | given
    answer = await uploaded(gateway, [source("plate", 1), bad])
    assert answer.json()["added"] == 1
    rejected = answer.json()["rejected"][0]
    assert rejected["pointer"] == f"/sources/1/{field}"
    assert sentence in rejected["detail"]
    assert rejected["detail"].startswith("'1.png': ")


async def test_an_alpha_channel_is_a_mask_and_its_pixels_stay_before_white(gateway: FakeGateway) -> None:
    cut = photograph(1).convert("RGBA")
    cut.putalpha(square())
    opaque = photograph(2).convert("RGBA")
    files = {"cut.png": png(cut), "opaque.png": png(opaque)}
    await uploaded(
        gateway,
        [{"filename": name, "label": "sled", "content_base64": data} for name, data in files.items()],
    )
    found = {each.filename: each for each in gateway.ledger.datasets.sources("demo")}
    assert found["opaque.png"].mask is None
    mask = shown_image(str(found["cut.png"].mask), gateway.store.get)
    assert np.array_equal(mask[:, :, 0], np.asarray(square()))
    pixels = shown_image(found["cut.png"].image, gateway.store.get)
    assert (pixels[0, 0] == 255).all()
    assert np.array_equal(pixels[40, 40], np.asarray(photograph(1))[40, 40])


async def test_soft_edges_are_kept_of_an_alpha_channel_and_of_a_mask(gateway: FakeGateway) -> None:
    soft = square().filter(ImageFilter.GaussianBlur(3))
    soft.putpixel((45, 45), 255)
    cut = photograph(1).convert("RGBA")
    cut.putalpha(soft)
    of_alpha = {"filename": "cut.png", "label": "sled", "content_base64": png(cut)}
    await uploaded(gateway, [of_alpha, source("sled", 2, mask_base64=png(soft))])
    masks = {each.mask for each in gateway.ledger.datasets.sources("demo")}
    assert len(masks) == 1
    mask = shown_image(str(masks.pop()), gateway.store.get)
    assert np.array_equal(mask[:, :, 0], np.asarray(soft))


async def test_masks_change_a_dataset_s_digest_and_go_with_it(gateway: FakeGateway) -> None:
    bare = source("sled", 1, mask_base64=None)
    await uploaded(gateway, [bare])
    before = gateway.ledger.datasets.get("demo").digest
    await uploaded(gateway, [bare | {"mask_base64": png(square())}])
    after = gateway.ledger.datasets.get("demo")
    assert (after.n_sources, after.digest != before) == (1, True)
    mask = gateway.ledger.datasets.sources("demo")[0].mask
    assert mask is not None
    assert gateway.ledger.blobs.named({mask}) == {mask}
    await uploaded(gateway, [bare | {"mask_base64": png(square(20))}])
    assert gateway.ledger.blobs.named({mask}) == set()
    assert gateway.ledger.blobs.loose(before=float("inf"), most=100) == [mask]
    mask = gateway.ledger.datasets.sources("demo")[0].mask
    assert mask is not None
    gateway.ledger.datasets.delete("demo")
    assert gateway.ledger.blobs.named({mask}) == set()
    assert mask in gateway.ledger.blobs.loose(before=float("inf"), most=100)


async def test_a_mask_is_its_tenant_s_alone(gateway: FakeGateway) -> None:
    await uploaded(gateway, [source("sled", 1)])
    mask = str(gateway.ledger.datasets.sources("demo")[0].mask)
    assert gateway.ledger.of("default").blobs.holds(mask)
    assert not gateway.ledger.of("other").blobs.holds(mask)
