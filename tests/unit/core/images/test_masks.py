"""Masks of files, alpha channels and polygons, upright and as large as their images; which edges are soft."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image, ImageDraw

from counterpose_core.errors import InvalidRequest, UnsupportedMedia
from counterpose_core.images.codecs import LARGEST_PHOTOGRAPH, decode_image, encode_raw
from counterpose_core.images.masks import (
    alpha_mask,
    editable,
    file_mask,
    is_soft,
    mask_pixels,
    outline_mask,
)

SIZE = (40, 24)


def file(image: Image.Image, form: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def corner(mode: str = "L", value: int = 255, size: tuple[int, int] = SIZE) -> Image.Image:
    mask = Image.new(mode, size)
    mask.paste(value, (0, 0, 10, 6))
    return mask


def with_red(image: Image.Image) -> Image.Image:
    image.putpixel((0, 12), (255, 0, 0))
    return image


PHOTOGRAPH = file(Image.new("RGB", SIZE, "green"))
EXPECTED = np.zeros(SIZE[::-1], np.uint8)
EXPECTED[:6, :10] = 255
SOFT = Image.linear_gradient("L").resize(SIZE)
"""From nearly black to nearly white."""


@pytest.mark.parametrize(
    "data",
    [
        file(corner()),
        file(corner("1", 1)),
        file(corner("I;16", 65535)),
        file(corner().convert("RGB"), "JPEG", quality=95),
        file(corner().convert("P")),
        file(corner().convert("RGB"), "WEBP", lossless=True),
        file(Image.merge("RGBA", [Image.new("L", SIZE, 9)] * 3 + [corner()])),
    ],
    ids=["grey", "bits", "sixteen", "jpeg", "palette", "webp", "cut-out"],
)
def test_a_mask_is_read_of_any_file(data: bytes) -> None:
    np.testing.assert_array_equal(file_mask(data, PHOTOGRAPH), EXPECTED)


def test_a_turned_photograph_has_the_mask_that_is_seen() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = file(Image.new("RGB", SIZE[::-1], "green"), "JPEG", exif=exif)
    assert decode_image(turned).shape[:2] == SIZE[::-1]
    np.testing.assert_array_equal(file_mask(file(corner()), turned), EXPECTED)
    with pytest.raises(InvalidRequest, match="24 x 40 pixels, but its image 40 x 24"):
        file_mask(file(corner(size=SIZE[::-1])), turned)


def test_an_alpha_channel_is_turned_with_its_image() -> None:
    exif = Image.Exif()
    exif[0x0112] = 3
    layer = Image.new("RGBA", SIZE, "red")
    layer.putalpha(corner())
    found = alpha_mask(file(layer, exif=exif))
    assert found is not None
    np.testing.assert_array_equal(found, EXPECTED[::-1, ::-1])


@pytest.mark.parametrize("value", [0, 255])
def test_an_alpha_channel_that_is_the_same_everywhere_is_no_mask(value: int) -> None:
    layer = Image.new("RGBA", SIZE, "red")
    layer.putalpha(value)
    assert alpha_mask(file(layer)) is None


def test_images_without_alpha_have_no_mask() -> None:
    assert alpha_mask(PHOTOGRAPH) is None
    assert alpha_mask(encode_raw(decode_image(PHOTOGRAPH))) is None


def test_raw_pixels_have_a_size_too() -> None:
    raw = encode_raw(decode_image(PHOTOGRAPH))
    np.testing.assert_array_equal(file_mask(file(corner()), raw), EXPECTED)


@pytest.mark.parametrize(
    ("image", "sentence"),
    [
        (corner(size=(40, 25)), "40 x 25 pixels, but its image 40 x 24"),
        (corner(size=(80, 48)), "80 x 48 pixels, but its image 40 x 24"),
        (Image.new("L", SIZE), "is empty: no object is in it; its lightest value is 0"),
        (corner(value=1), "its lightest value is 1"),
        (Image.new("L", SIZE, 255), "is full: no background is left"),
    ],
)
def test_a_mask_that_is_no_mask_of_the_image_is_refused(image: Image.Image, sentence: str) -> None:
    with pytest.raises(InvalidRequest, match=sentence):
        file_mask(file(image), PHOTOGRAPH)


def test_a_mask_of_another_format_is_refused() -> None:
    with pytest.raises(UnsupportedMedia):
        file_mask(file(corner(), "BMP"), PHOTOGRAPH)


def test_polygons_are_filled_as_pillow_fills_them() -> None:
    polygons: list[list[float]] = [[1.0, 1.0, 9.0, 1.0, 1.0, 9.0], [20, 10, 30, 10, 30, 20, 20, 20]]
    canvas = Image.new("L", SIZE)
    draw = ImageDraw.Draw(canvas)
    draw.polygon([(1, 1), (9, 1), (1, 9)], fill=255)
    draw.polygon([(20, 10), (30, 10), (30, 20), (20, 20)], fill=255)
    np.testing.assert_array_equal(outline_mask(polygons, SIZE, PHOTOGRAPH), np.asarray(canvas))


@pytest.mark.parametrize(
    ("polygon", "size", "sentence"),
    [
        ([0, 0, 50, 0, 0, 10], SIZE, "leaves the image"),
        ([0, 0, 10, 0, 0, -9], SIZE, "leaves the image"),
        ([0, 0, 9, 0, 0, 9], (20, 12), "20 x 12 pixels, but its image 40 x 24"),
        ([0, 0, 40, 0, 40, 24, 0, 24], SIZE, "is full"),
    ],
)
def test_an_outline_of_another_image_is_refused(
    polygon: list[float], size: tuple[int, int], sentence: str
) -> None:
    with pytest.raises(InvalidRequest, match=sentence):
        outline_mask([polygon], size, PHOTOGRAPH)


def test_a_mask_is_stored_in_the_size_of_the_stored_image() -> None:
    stored = mask_pixels(EXPECTED, np.zeros((12, 20, 3), np.uint8))
    assert stored.shape == (12, 20, 3)
    assert (stored[:3, :5] == 255).all()
    assert stored.sum() == 255 * 3 * 15


def test_the_mask_of_a_photograph_above_the_stored_size_is_halved_as_the_photograph_is() -> None:
    size = (5000, 4000)
    photograph = file(Image.new("RGB", size, "green"), compress_level=1)
    mask = Image.new("L", size)
    mask.paste(255, (0, 0, 2500, 4000))
    stored = decode_image(photograph, max_pixels=LARGEST_PHOTOGRAPH)
    found = mask_pixels(file_mask(file(mask, compress_level=1), photograph), stored)
    assert found.shape == stored.shape == (2000, 2500, 3)
    assert (found[:, :1249] == 255).all()
    assert (found[:, 1251:] == 0).all()


@pytest.mark.parametrize(
    "data",
    [
        file(SOFT),
        file(SOFT.convert("RGB")),
        file(Image.merge("RGBA", [Image.new("L", SIZE, 9)] * 3 + [SOFT])),
    ],
    ids=["grey", "colours", "cut-out"],
)
def test_a_soft_edge_is_taken_as_it_is(data: bytes) -> None:
    matte = file_mask(data, PHOTOGRAPH)
    np.testing.assert_array_equal(matte, np.asarray(SOFT))
    assert is_soft(matte)


@pytest.mark.parametrize(
    "data",
    [
        file(SOFT, "JPEG", quality=95),
        file(SOFT.convert("RGB"), "WEBP", lossless=True),
        file(SOFT.point(lambda level: level * 0.9)),
        file(with_red(SOFT.convert("RGB"))),
    ],
    ids=["jpeg", "webp", "without white", "coloured"],
)
def test_of_what_only_seems_soft_the_outline_is_taken(data: bytes) -> None:
    matte = file_mask(data, PHOTOGRAPH)
    assert not is_soft(matte)
    assert 0 < (matte == 255).mean() < 1


def test_a_matte_is_halved_as_its_photograph_and_an_outline_stays_one() -> None:
    levels = np.full((4, 8), 100, np.uint8)
    levels[:, 0], levels[:, 1:4] = 0, 255
    small = np.zeros((2, 4, 3), np.uint8)
    np.testing.assert_array_equal(mask_pixels(levels, small)[0, :, 0], [128, 255, 100, 100])
    outline = np.where(levels > 0, 255, 0).astype(np.uint8)
    assert not is_soft(mask_pixels(outline, small))


def test_an_outline_above_the_stored_size_stays_one() -> None:
    size = (5001, 4000)
    photograph = file(Image.new("RGB", size, "green"), compress_level=1)
    mask = Image.new("L", size)
    # The halves of its edge are grey.
    mask.paste(255, (0, 0, 2501, 4000))
    assert not is_soft(file_mask(file(mask, compress_level=1), photograph))


def test_a_region_is_one_side_of_its_mask() -> None:
    mask = file(corner())
    assert np.array_equal(editable(mask, "inside", SIZE[::-1]), EXPECTED > 0)
    assert np.array_equal(editable(mask, "outside", SIZE[::-1]), EXPECTED == 0)


def test_a_region_of_another_size_or_of_nothing_is_refused_by_name() -> None:
    with pytest.raises(InvalidRequest, match="the mask has 40 x 24 pixels, but its image 20 x 24"):
        editable(file(corner()), "inside", (24, 20))
    with pytest.raises(InvalidRequest, match="nothing is outside the mask"):
        editable(file(Image.new("RGB", SIZE, "white")), "outside", SIZE[::-1])
