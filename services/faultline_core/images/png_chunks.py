"""Checks of a PNG's chunks before a parser inflates them (PNG specification, section 5).

Pillow's `verify()` checks the checksums too, but does not limit the total size to which the texts and
profiles of a file inflate.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from faultline_core.errors import ImageTooLarge, ImageUndecodable

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MOST_INFLATED = 2**20
"""The total bytes to which texts and profiles of one file may inflate; a camera's take some thousands."""

_LENGTH, _SIZE = struct.Struct(">I"), struct.Struct(">II")
_COMPRESSED = frozenset({b"zTXt", b"iTXt", b"iCCP"})
_FRAME = 12
"""Bytes of a chunk in addition to its content: length, kind, checksum."""


def check_chunks(data: bytes, *, max_pixels: int) -> None:
    """Check the checksum of every chunk of a PNG and the total inflated size of its texts and profiles.

    Raises:
        ImageTooLarge: its header announces more than ``max_pixels``.
        ImageUndecodable: a chunk is cut short or its checksum is wrong, the last one is missing, or the texts
            and profiles inflate to more than ``MOST_INFLATED``.
    """
    left = MOST_INFLATED
    for kind, content in chunks(data):
        if kind == b"IHDR" and len(content) >= _SIZE.size:
            width, height = _SIZE.unpack_from(content)
            if width * height > max_pixels:
                raise ImageTooLarge(
                    f"the image has {width} x {height} pixels, more than {max_pixels}; scale it down"
                )
        left -= _inflated(_compressed(kind, bytes(content)), left) if kind in _COMPRESSED else 0


def chunks(data: bytes) -> Iterator[tuple[bytes, memoryview]]:
    """Yield the kind and content of each chunk, up to the last one.

    Raises:
        ImageUndecodable: a chunk is cut short, its checksum is wrong, or the last one is missing.
    """
    view, start, kind = memoryview(data), len(SIGNATURE), b""
    while kind != b"IEND":
        frame = view[start : start + 8]
        end = start + _FRAME + (_LENGTH.unpack(frame[:4])[0] if len(frame) == 8 else 0)
        if len(frame) < 8 or end > len(view):
            raise ImageUndecodable(
                f"the PNG of {len(data)} bytes ends before its last chunk does; export the image again"
            )
        kind = bytes(frame[4:])
        # The parser skips the checksums of the pixels, so a flipped bit could otherwise pass unnoticed.
        if zlib.crc32(view[start + 4 : end - 4]) != _LENGTH.unpack(view[end - 4 : end])[0]:
            raise ImageUndecodable(
                f"the checksum of the PNG's chunk {kind!r} is wrong; export the image again"
            )
        yield kind, view[start + 8 : end - 4]
        start = end


def _compressed(kind: bytes, content: bytes) -> bytes:
    """Return the compressed part of a text or profile chunk, after its keyword and language tags."""
    _, _, rest = content.partition(b"\0")
    if kind != b"iTXt":
        return rest[1:]
    if rest[:1] != b"\x01":
        return b""
    return rest[2:].split(b"\0", 2)[-1]


def _inflated(compressed: bytes, most: int) -> int:
    try:
        size = len(zlib.decompressobj().decompress(compressed, most + 1))
    except zlib.error:
        # Data that does not inflate is harmless: the parser drops it.
        return 0
    if size > most:
        raise ImageUndecodable(
            f"the PNG's texts and profiles inflate to more than {MOST_INFLATED} bytes; remove them"
        )
    return size
