"""Image files before decoding: PNG chunks are checked, other media are named, polyglots are refused."""

from __future__ import annotations

import io
import struct
import time
import zipfile
import zlib

import numpy as np
import pytest
from PIL import Image, ImageCms

from counterpose_core.errors import ImageTooLarge, ImageUndecodable, UnsupportedMedia
from counterpose_core.images.codecs import FORMATS, decode_image, encode_png
from counterpose_core.images.file_structure import (
    MAX_SCANS,
    MOST_INFLATED,
    SIGNATURE,
    check_chunks,
    chunks,
    is_other_media,
    other_format,
)
from fakes.bad_files import chunk

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 5, 3), dtype=np.uint8)
NOTED_PNG = encode_png(PIXELS, text={"note": "a note"})
HEADER_END = len(SIGNATURE) + 12 + 13


def with_chunks(*chunks: bytes) -> bytes:
    return NOTED_PNG[:HEADER_END] + b"".join(chunks) + NOTED_PNG[HEADER_END:]


def compressed(size: int) -> bytes:
    return zlib.compress(b"\0" * size)


def ends_of_chunks(png: bytes) -> list[int]:
    ends, start = [], len(SIGNATURE)
    while start < len(png):
        start += 12 + struct.unpack_from(">I", png, start)[0]
        ends.append(start)
    return ends


def flipped(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


@pytest.mark.fault("B5")
def test_a_flipped_bit_in_any_checksum_is_detected() -> None:
    ends = ends_of_chunks(NOTED_PNG)
    assert len(ends) == 4
    for end in ends:
        with pytest.raises(ImageUndecodable, match="checksum"):
            decode_image(flipped(NOTED_PNG, end - 1))


@pytest.mark.fault("B5")
def test_a_flipped_bit_anywhere_in_a_chunk_is_detected() -> None:
    for position in range(len(SIGNATURE), len(NOTED_PNG)):
        with pytest.raises(ImageUndecodable):
            decode_image(flipped(NOTED_PNG, position))


@pytest.mark.parametrize("missing", [1, 4, 12, 13, 40])
def test_a_png_without_its_end_is_undecodable(missing: int) -> None:
    with pytest.raises(ImageUndecodable, match="ends before"):
        decode_image(NOTED_PNG[:-missing])


def test_a_chunk_claiming_two_billion_bytes_is_a_truncated_file() -> None:
    with pytest.raises(ImageUndecodable, match="ends before"):
        check_chunks(SIGNATURE + struct.pack(">I", 2**31 - 1) + b"IHDR", max_pixels=100)


def test_the_image_size_is_checked_before_the_following_chunks() -> None:
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 50_000, 50_000, 8, 2, 0, 0, 0))
    with pytest.raises(ImageTooLarge, match="50000 x 50000"):
        check_chunks(SIGNATURE + header + b"rubbish", max_pixels=16_000_000)


BOMBS = {
    "zTXt": [chunk(b"zTXt", b"note\0\0" + compressed(50_000_000))],
    "iTXt": [chunk(b"iTXt", b"note\0\1\0en\0note\0" + compressed(50_000_000))],
    "iCCP": [chunk(b"iCCP", b"profile\0\0" + compressed(50_000_000))],
    "many texts that are small one by one": [
        chunk(b"zTXt", b"note\0\0" + compressed(MOST_INFLATED // 10)) for _ in range(11)
    ],
}


@pytest.mark.fault("B7", "B8")
@pytest.mark.parametrize("kind", BOMBS)
def test_decompression_bombs_in_texts_and_profiles_are_refused(kind: str) -> None:
    assert len(with_chunks(*BOMBS[kind])) < 60_000
    with pytest.raises(ImageUndecodable, match="inflate to more than"):
        decode_image(with_chunks(*BOMBS[kind]))


@pytest.mark.fault("B7")
def test_a_png_of_a_million_chunks_is_refused_quickly_by_its_setting() -> None:
    many = with_chunks(chunk(b"teXt", b"") * 1_200_000)
    start = time.process_time()
    with pytest.raises(ImageUndecodable, match=r"more than 20000 chunks \(COUNTERPOSE_MAX_PNG_CHUNKS\)"):
        decode_image(many)
    assert time.process_time() - start < 0.5


def test_a_png_of_as_many_chunks_as_allowed_is_read() -> None:
    few = with_chunks(chunk(b"teXt", b"") * 10)
    total = sum(1 for _ in chunks(few))
    assert decode_image(few, max_chunks=total).shape == decode_image(NOTED_PNG).shape
    with pytest.raises(ImageUndecodable):
        decode_image(few, max_chunks=total - 1)


@pytest.mark.fault("B7")
def test_a_decompression_bomb_after_the_pixels_is_refused() -> None:
    with pytest.raises(ImageUndecodable, match="inflate to more than"):
        decode_image(NOTED_PNG[:-12] + BOMBS["iTXt"][0] + NOTED_PNG[-12:])


def test_texts_and_profiles_of_normal_size_are_accepted() -> None:
    buffer = io.BytesIO()
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    Image.fromarray(PIXELS).save(buffer, format="PNG", icc_profile=profile)
    np.testing.assert_array_equal(decode_image(buffer.getvalue()), PIXELS)
    texts = [
        chunk(b"zTXt", b"note\0\0" + compressed(MOST_INFLATED // 2)),
        chunk(b"iTXt", b"note\0\0\0\0\0" + b"x" * 2 * MOST_INFLATED),
        chunk(b"zTXt", b"note\0\0no stream at all"),
    ]
    np.testing.assert_array_equal(decode_image(with_chunks(*texts)), PIXELS)


SQUARE = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)


def saved(format: str) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(SQUARE).save(buffer, format=format)
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


def with_scans(more: int) -> bytes:
    """A progressive JPEG whose last scan is repeated so often."""
    buffer = io.BytesIO()
    Image.fromarray(NOISE).save(buffer, format="JPEG", progressive=True)
    jpeg = buffer.getvalue()
    start = jpeg.rfind(b"\xff\xda")
    return jpeg[:-2] + jpeg[start:-2] * more + jpeg[-2:]


@pytest.mark.fault("B65")
def test_a_jpeg_of_many_scans_is_refused_and_one_of_a_camera_is_not() -> None:
    # Pillow writes ten.
    honest = with_scans(MAX_SCANS - 10)
    assert decode_image(honest).shape == NOISE.shape
    with pytest.raises(ImageUndecodable, match="more than 32 scans; export"):
        decode_image(with_scans(MAX_SCANS - 9))
    # What looks like one in a comment, behind a fill byte or after the end counts as none.
    told = commented(honest, b"\xff\xda" * 2000)
    assert decode_image(told[:2] + b"\xff" + told[2:] + b"\xff\xda" * 2000).shape == NOISE.shape


def test_a_jpeg_of_many_segments_is_refused_in_time() -> None:
    began = time.process_time()
    with pytest.raises(ImageUndecodable, match="more than 1000 segments"):
        decode_image(JPEG[:2] + b"\xff\xfe\x00\x02" * 6_000_000 + JPEG[2:])
    assert time.process_time() - began < 2.0


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
