"""The chunks of a PNG: checksums are verified and decompression is bounded."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image, ImageCms

from faultline_core.errors import ImageTooLarge, ImageUndecodable
from faultline_core.images.codecs import decode_image, encode_png
from faultline_core.images.png_chunks import MOST_INFLATED, SIGNATURE, check_chunks

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 5, 3), dtype=np.uint8)
PNG = encode_png(PIXELS, text={"note": "a note"})
HEADER_END = len(SIGNATURE) + 12 + 13


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def with_chunks(*chunks: bytes) -> bytes:
    return PNG[:HEADER_END] + b"".join(chunks) + PNG[HEADER_END:]


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
    ends = ends_of_chunks(PNG)
    assert len(ends) == 4
    for end in ends:
        with pytest.raises(ImageUndecodable, match="checksum"):
            decode_image(flipped(PNG, end - 1))


@pytest.mark.fault("B5")
def test_a_flipped_bit_anywhere_in_a_chunk_is_detected() -> None:
    for position in range(len(SIGNATURE), len(PNG)):
        with pytest.raises(ImageUndecodable):
            decode_image(flipped(PNG, position))


@pytest.mark.parametrize("missing", [1, 4, 12, 13, 40])
def test_a_png_without_its_end_is_undecodable(missing: int) -> None:
    with pytest.raises(ImageUndecodable, match="ends before"):
        decode_image(PNG[:-missing])


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
def test_a_decompression_bomb_after_the_pixels_is_refused() -> None:
    with pytest.raises(ImageUndecodable, match="inflate to more than"):
        decode_image(PNG[:-12] + BOMBS["iTXt"][0] + PNG[-12:])


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
