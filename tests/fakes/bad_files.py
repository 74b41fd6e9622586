"""Files that no dataset accepts, grouped by kind of bad input, each with the code of its refusal."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from typing import Any

import numpy as np
from PIL import Image

from counterpose_core.images.codecs import encode_raw


def saved(format: str, size: int = 16, **options: Any) -> bytes:
    """An image of noise as a file."""
    buffer = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (size, size, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(buffer, format=format, **options)
    return buffer.getvalue()


def chunk(kind: bytes, content: bytes) -> bytes:
    """A chunk of a PNG."""
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png_claiming(width: int, height: int, *before_the_pixels: bytes) -> bytes:
    """A PNG of two pixels' worth of bytes that says it is so large."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(b"\0" * 100))
    return b"".join((b"\x89PNG\r\n\x1a\n", header, *before_the_pixels, pixels, chunk(b"IEND", b"")))


def png_with(*chunks: bytes) -> bytes:
    """A whole image with further chunks before its pixels."""
    return IMAGE[:33] + b"".join(chunks) + IMAGE[33:]


def jpeg_claiming(width: int, height: int) -> bytes:
    """A JPEG of 16 pixels a side that says it is so large."""
    jpeg = saved("JPEG")
    start = jpeg.index(b"\xff\xc0") + 5
    return jpeg[:start] + struct.pack(">HH", height, width) + jpeg[start + 4 :]


def webp_claiming(side: int) -> bytes:
    """An animated WebP whose canvas is so large."""
    webp = saved("WEBP", **FRAMES)
    start = webp.index(b"VP8X") + 12
    return webp[:start] + 2 * (side - 1).to_bytes(3, "little") + webp[start + 6 :]


def gif_of(frames: int) -> bytes:
    """An animation of 2 x 2 pixels."""
    frame = bytes.fromhex("2c000000000200020000") + b"\x02\x03\x84\x81\x05\x00"
    return b"GIF89a" + struct.pack("<HHBBB", 2, 2, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff" + frame * frames + b";"


def flipped(content: bytes, position: int) -> bytes:
    """``content`` with one byte turned round."""
    return content[:position] + bytes([content[position] ^ 0xFF]) + content[position + 1 :]


def zipped() -> bytes:
    """An archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.txt", "hidden")
    return buffer.getvalue()


def scripted() -> bytes:
    """A JPEG whose first segment is as long as the comment that a script begins with."""
    jpeg, code, length = saved("JPEG"), b"*/=alert(1)/*", int.from_bytes(b"/*", "big")
    return jpeg[:4] + b"/*" + jpeg[6:20] + b"\0" * (length - 16 - len(code)) + code + jpeg[20:]


IMAGE = saved("PNG")
FRAMES: dict[str, Any] = {"save_all": True, "append_images": [Image.new("RGB", (16, 16), "red")]}
BOMB = zlib.compress(b"\0" * 50_000_000, 1)
RAW = encode_raw(np.zeros((16, 16, 3), np.uint8))

_UNDECODABLE: dict[str, dict[str, bytes]] = {
    "B1": {"no byte at all": b""},
    "B3": {
        "one byte": b"\x00",
        "random bytes": np.random.default_rng(0).bytes(4096),
        "random bytes behind a PNG's signature": b"\x89PNG\r\n\x1a\n" + b"\x07" * 64,
        "random bytes behind a WebP's signature": b"RIFF\x40\0\0\0WEBPVP8 " + b"\x07" * 64,
        "a web page": b"<html><body>not found</body></html>",
        "a script behind a JPEG's first marker": b"\xff\xd8\xff<script>alert(1)</script>",
    },
    "B4": {
        "a cut JPEG": saved("JPEG", size=64)[:-400],
        "a cut PNG": IMAGE[:200],
        "a cut WebP": saved("WEBP")[:-40],
        "a PNG cut within its header": IMAGE[:20],
        "a cut raw image": RAW[:-1],
        "a raw image's cut header": RAW[:10],
    },
    "B5": {
        "a PNG whose header's checksum is wrong": flipped(IMAGE, 30),
        "a PNG whose pixels' checksum is wrong": flipped(IMAGE, -13),
        "a PNG whose last checksum is wrong": flipped(IMAGE, -1),
        "a PNG with a flipped byte": flipped(IMAGE, 60),
    },
    "B7": {
        "a zTXt that inflates to 50 million bytes": png_with(chunk(b"zTXt", b"Comment\0\0" + BOMB)),
        "an iTXt that inflates to 50 million bytes": png_with(chunk(b"iTXt", b"Comment\0\1\0\0\0" + BOMB)),
        "a text in an empty image that inflates": png_claiming(16, 16, chunk(b"zTXt", b"a\0\0" + BOMB)),
        "sixty texts of a million bytes": png_with(
            *[chunk(b"zTXt", b"a\0\0" + zlib.compress(b"\0" * 1_000_000)) for _ in range(60)]
        ),
    },
    "B8": {"a profile that inflates to 50 million bytes": png_with(chunk(b"iCCP", b"a\0\0" + BOMB))},
}
_TOO_SMALL = {"B2": {f"one pixel as {format}": saved(format, 1) for format in ("PNG", "JPEG", "WEBP")}}
_TOO_LARGE: dict[str, dict[str, bytes]] = {
    "B6": {
        "a PNG of 50,000 x 50,000": png_claiming(50_000, 50_000),
        "a PNG of two thousand million pixels a side": png_claiming(2**31 - 1, 2**31 - 1),
        "a JPEG of 65,000 x 65,000": jpeg_claiming(65_000, 65_000),
        "a raw image of 60,000 x 60,000": b"FLRAW1" + struct.pack("<III", 60_000, 60_000, 3),
        "a WebP of 16,383 x 16,383": webp_claiming(16_383),
        "a WebP above 16 megapixels": webp_claiming(4_001),
        "one row over the limit": png_claiming(16_000, 4_001),
    },
}
_OTHER_MEDIA: dict[str, dict[str, bytes]] = {
    "B9": {"a GIF of 10,000 frames": gif_of(10_000)},
    "B10": {f"animated {format}": saved(format, **FRAMES) for format in ("PNG", "WEBP", "GIF")},
    "B11": {
        "TIFF": saved("TIFF"),
        "FITS": b"SIMPLE  =                    T",
        "EPS": b"%!PS-Adobe-3.0 EPSF-3.0\n",
        "PDF": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n",
        "PSD": b"8BPS\x00\x01",
        "SVG": b"<svg/>",
        "SVG behind white space": b'\n <?xml version="1.0"?><svg onload="alert(1)"/>',
        "ICO": saved("ICO"),
        "GIF": saved("GIF"),
        "BMP": saved("BMP"),
        "AVIF": b"\x00\x00\x00\x20ftypavif",
        "ZIP": zipped(),
    },
    "B12": {
        "PNG and ZIP": IMAGE + zipped(),
        "JPEG and ZIP": saved("JPEG") + zipped(),
        "JPEG and JavaScript": scripted(),
        "PNG and a page": IMAGE + b"<script>alert(1)</script>",
    },
}
BAD_FILES: dict[str, dict[str, tuple[bytes, str]]] = {
    group: {kind: (content, code) for kind, content in files.items()}
    for code, groups in (
        ("image-undecodable", _UNDECODABLE),
        ("image-too-large", _TOO_LARGE),
        ("unsupported-media", _OTHER_MEDIA),
        ("invalid-request", _TOO_SMALL),
    )
    for group, files in groups.items()
}
BAD = {kind: found for files in BAD_FILES.values() for kind, found in files.items()}
"""The same by kind."""
