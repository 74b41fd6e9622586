"""File types by content: other media are named, and images that are also another format are refused."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib

import numpy as np
import pytest
from PIL import Image

from fakes.bad_files import chunk
from faultline_core.errors import ImageUndecodable, UnsupportedMedia
from faultline_core.images.codecs import FORMATS, decode_image
from faultline_core.images.png_chunks import SIGNATURE
from faultline_core.images.polyglots import is_other_media, other_format

PIXELS = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)


def saved(format: str) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(PIXELS).save(buffer, format=format)
    return buffer.getvalue()


def zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.txt", "hidden")
        archive.comment = b"a comment"
    return buffer.getvalue()


def commented(jpeg: bytes, comment: bytes) -> bytes:
    return jpeg[:2] + b"\xff\xfe" + struct.pack(">H", len(comment) + 2) + comment + jpeg[2:]


def texted(png: bytes, text: bytes) -> bytes:
    chunk = b"tEXt" + text
    return png[:33] + struct.pack(">I", len(text)) + chunk + struct.pack(">I", zlib.crc32(chunk)) + png[33:]


def scripted(jpeg: bytes) -> bytes:
    """A JPEG whose first segment is as long as the comment that a script begins with."""
    code = b"*/=alert(1)/*"
    length = int.from_bytes(b"/*", "big")
    return jpeg[:4] + b"/*" + jpeg[6:20] + b"\0" * (length - 16 - len(code)) + code + jpeg[20:]


JPEG, PNG, WEBP = (saved(format) for format in ("JPEG", "PNG", "WEBP"))
TWO_THINGS = {
    "PNG and ZIP": (PNG + zipped(), "ZIP"),
    "JPEG and ZIP": (JPEG + zipped(), "ZIP"),
    "WebP and ZIP": (WEBP + zipped(), "ZIP"),
    "PNG with a ZIP in a text": (texted(PNG, b"Comment\0" + zipped()), "ZIP"),
    "JPEG and JavaScript": (scripted(JPEG), "script"),
    "JPEG with a script in a comment": (commented(JPEG, b"<ScRiPt>alert(1)</script>"), "markup"),
    "JPEG and PHP": (commented(JPEG, b"<?php system($_GET['c']);"), "markup"),
    "JPEG with a script in a late comment": (
        commented(commented(JPEG, b"<script>alert(1)</script>"), b"." * 5000),
        "markup",
    ),
    "PNG with a script in a late text": (
        texted(texted(PNG, b"Comment\0<script>alert(1)</script>"), b"Comment\0" + b"." * 5000),
        "markup",
    ),
    "PNG and a page": (PNG + b"<!DOCTYPE html><html><body onload=alert(1)>", "markup"),
    "JPEG and PDF": (commented(JPEG, b"\n%PDF-1.7\n"), "PDF"),
}


@pytest.mark.fault("B12")
@pytest.mark.parametrize("kind", TWO_THINGS)
def test_a_polyglot_image_is_refused(kind: str) -> None:
    data, other = TWO_THINGS[kind]
    with Image.open(io.BytesIO(data), formats=FORMATS) as image:
        image.load()
    with pytest.raises(UnsupportedMedia, match=f"can also be read as .*{other}"):
        decode_image(data)


NOISE = np.random.default_rng(1).integers(0, 256, (64, 64, 3), dtype=np.uint8)


def jpeg_that_spells_markup() -> bytes:
    """A JPEG with letters among its compressed pixels, behind the head of the file, that look like markup."""
    buffer = io.BytesIO()
    Image.fromarray(NOISE).save(buffer, format="JPEG", quality=95)
    data = buffer.getvalue()
    return data[:3000] + b"<script>" + data[3008:]


def png_that_spells_markup() -> bytes:
    """A PNG whose pixels, stored without compression, spell markup."""
    rows = [b"\0" + row.tobytes() for row in NOISE]
    rows[40] = b"\0<script>" + rows[40][9:]
    header = struct.pack(">IIBBBBB", 64, 64, 8, 2, 0, 0, 0)
    content = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"".join(rows), 0))
    return SIGNATURE + content + chunk(b"IEND", b"")


@pytest.mark.parametrize("image", [jpeg_that_spells_markup(), png_that_spells_markup()], ids=["JPEG", "PNG"])
def test_pixels_that_resemble_markup_are_accepted(image: bytes) -> None:
    assert image.index(b"<script>") > 1024
    assert other_format(image) is None
    assert decode_image(image).shape == (64, 64, 3)


@pytest.mark.fault("B12")
@pytest.mark.parametrize("image", [JPEG, PNG, WEBP])
def test_harmless_trailing_data_is_accepted(image: bytes) -> None:
    film = b"\0\0\0\x18ftypmp42" + bytes(range(256))
    for rest in (b"\0" * 512, film, b"PK\x05\x06", b"PK\x05\x06" + b"\xff" * 18, b"PK\x05\x06" + b"\0" * 18):
        assert other_format(image + rest) is None
        np.testing.assert_array_equal(decode_image(image + rest), decode_image(image))


OTHER_MEDIA = {
    "GIF": saved("GIF"),
    "TIFF": saved("TIFF"),
    "TIFF of a Motorola": b"MM\x00*\x00\x00\x00\x08",
    "BigTIFF": b"II+\x00\x08\x00\x00\x00",
    "FITS": b"SIMPLE  =                    T",
    "EPS": b"%!PS-Adobe-3.0 EPSF-3.0\n",
    "EPS with a preview": b"\xc5\xd0\xd3\xc6\x1e\x00",
    "PDF": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n",
    "PSD": b"8BPS\x00\x01",
    "SVG": b"<svg/>",
    "SVG behind a document type": b'<!-- drawn --><!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" ""><svg/>',
    "SVG behind a byte order mark": b"\xef\xbb\xbf \n<SVG onload='alert(1)'/>",
    "SVG behind a declaration": b'<?xml version="1.0"?><svg/>',
    "ICO": saved("ICO"),
    "a cursor": b"\x00\x00\x02\x00\x01\x00",
    "BMP": saved("BMP"),
    "JPEG 2000": saved("JPEG2000"),
    "JPEG XL": b"\xff\x0a\xfa\x7f",
    "HEIC": b"\x00\x00\x00\x18ftypheic",
    "ZIP": zipped(),
}


@pytest.mark.fault("B11")
@pytest.mark.parametrize("kind", OTHER_MEDIA)
def test_other_media_types_are_distinguished_from_broken_images(kind: str) -> None:
    assert is_other_media(OTHER_MEDIA[kind])
    with pytest.raises(UnsupportedMedia, match="convert it to a still PNG, JPEG or WebP"):
        decode_image(OTHER_MEDIA[kind])


@pytest.mark.parametrize("data", [b"", b"\0", b"<html>not found</html>", b"MZ\x90\x00", b"random bytes"])
def test_unrecognised_bytes_are_undecodable(data: bytes) -> None:
    assert not is_other_media(data)
    with pytest.raises(ImageUndecodable):
        decode_image(data)
