"""A PIL image of a dataset object is the same image as the file that it was opened from."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy
import pytest
from PIL import Image, ImageOps

from counterpose import InvalidRequest
from counterpose._datasets.pixels import encoded
from counterpose_core.images.codecs import Pixels, decode_image

NOISE = numpy.random.default_rng(3).integers(0, 256, (48, 64, 3), numpy.uint8)
LEVELS = numpy.linspace(0, 65535, 4096).reshape(64, 64).astype(numpy.uint16)


def file_of(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    """The bytes of a file of this image."""
    written = io.BytesIO()
    image.save(written, kind, **options)
    return written.getvalue()


def of_object(image: Image.Image) -> Pixels:
    """The pixels that come of a PIL image of a dataset object."""
    return decode_image(encoded(image, "row 0"))


def held(orientation: int, kind: str = "JPEG") -> bytes:
    """A photograph whose EXIF data say how it was held."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    return file_of(Image.fromarray(NOISE), kind, exif=exif)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("orientation", [1, 2, 3, 6, 8])
def test_a_photograph_is_turned_as_its_file_would_be(orientation: int, kind: str) -> None:
    file = held(orientation, kind)
    assert (of_object(Image.open(io.BytesIO(file))) == decode_image(file)).all()


def test_a_photograph_is_turned_once_whatever_was_done_to_the_object() -> None:
    file = held(6)
    opened = Image.open(io.BytesIO(file))
    # As torchvision's loader does, which keeps the note and does not turn.
    assert (of_object(opened.convert("RGB")) == decode_image(file)).all()
    assert (of_object(ImageOps.exif_transpose(opened)) == decode_image(file)).all()
    assert of_object(opened.resize((32, 24))).shape == (32, 24, 3)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
def test_broken_exif_data_leave_the_image_as_it_is() -> None:
    file = file_of(Image.fromarray(NOISE), "JPEG", exif=b"Exif\x00\x00MM\x00*\x00\x00\x00\x08\xff\xff\x01")
    assert (of_object(Image.open(io.BytesIO(file))) == decode_image(file)).all()


@pytest.mark.parametrize("mode", ["I;16", "I;16B", "I;16L", "I"])
def test_16_bit_levels_are_scaled_and_not_clipped(mode: str) -> None:
    file = file_of(Image.fromarray(LEVELS))
    opened: Image.Image = Image.open(io.BytesIO(file))
    assert opened.mode == "I;16"
    if mode == "I;16B":
        opened = Image.frombytes("I;16B", opened.size, LEVELS.astype(">u2").tobytes())
    elif mode != "I;16":
        opened = (
            opened.convert("I") if mode == "I" else Image.frombytes("I;16L", opened.size, LEVELS.tobytes())
        )
    pixels = of_object(opened)
    assert (pixels == decode_image(file)).all()
    assert len(numpy.unique(pixels)) == 256


@pytest.mark.parametrize(("low", "high"), [(0, 255), (-3, 900), (0, 70_000)])
def test_levels_of_other_than_16_bits_are_refused(low: int, high: int) -> None:
    image = Image.fromarray(numpy.linspace(low, high, 64).reshape(8, 8).astype(numpy.int32))
    with pytest.raises(InvalidRequest, match=f"row 0 has mode 'I' and values from {low} to {high}"):
        encoded(image, "row 0")


def test_floats_are_scaled_from_0_to_1_and_others_are_refused() -> None:
    levels = numpy.linspace(0, 1, 256, dtype=numpy.float32).reshape(16, 16)
    assert (of_object(Image.fromarray(levels))[..., 0].ravel() == numpy.arange(256)).all()
    for wrong in (levels * 255, levels - 1, levels * numpy.float32("nan")):
        with pytest.raises(InvalidRequest, match="before any normalisation"):
            encoded(Image.fromarray(wrong), "row 0")


def test_transparency_is_shown_on_white_in_every_mode() -> None:
    alpha = numpy.zeros((48, 64), numpy.uint8)
    alpha[:24] = 255
    whole = Image.fromarray(numpy.dstack([NOISE, alpha]))
    palette = Image.fromarray(NOISE).quantize(16)
    palette.info["transparency"] = 3
    grey = Image.fromarray(NOISE).convert("L")
    grey.info["transparency"] = 7
    colour = Image.fromarray(NOISE)
    colour.info["transparency"] = tuple(int(level) for level in NOISE[0, 0])
    for image in (whole, whole.convert("LA"), palette, grey, colour):
        assert (of_object(image) == decode_image(file_of(image))).all()
    for mode in ("RGBa", "PA", "La"):
        made = whole.convert("LA").convert(mode) if mode == "La" else whole.convert(mode)
        assert (of_object(made)[24:] == 255).all()


@pytest.mark.parametrize("mode", ["CMYK", "YCbCr", "L", "RGB"])
def test_a_jpeg_of_any_colour_space_is_the_same_image(mode: str) -> None:
    file = file_of(Image.fromarray(NOISE).convert(mode), "JPEG")
    assert (of_object(Image.open(io.BytesIO(file))) == decode_image(file)).all()


def test_a_colour_png_of_16_bits_is_the_same_image() -> None:
    rows = b"".join(b"\x00" + row.tobytes() for row in NOISE.astype(">u2") * 257)
    header = struct.pack(">IIBBBBB", 64, 48, 16, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    file = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
    assert (of_object(Image.open(io.BytesIO(file))) == NOISE).all()
    assert (decode_image(file) == NOISE).all()
