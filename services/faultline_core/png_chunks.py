"""The chunks of a PNG, walked before a parser inflates what is in them (PNG specification, section 5)."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from faultline_core.errors import ImageTooLarge, ImageUndecodable

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MOST_INFLATED = 2**20
"""Bytes that all texts and profiles of one file may inflate to; a camera's take some thousands."""

_LENGTH, _SIZE = struct.Struct(">I"), struct.Struct(">II")
_COMPRESSED = frozenset({b"zTXt", b"iTXt", b"iCCP"})
_FRAME = 12
"""Bytes of a chunk beside its content: length, kind, checksum."""


def check_chunks(data: bytes, *, max_pixels: int) -> None:
    """Hold every chunk of a PNG up to its end against its checksum, and its compressed texts against a limit.

    Raises:
        ImageTooLarge: its header announces more than ``max_pixels``.
        ImageUndecodable: a chunk is cut short or its checksum is wrong, the last one is missing, or the texts
            and profiles inflate to more than ``MOST_INFLATED``.
    """
    left = MOST_INFLATED
    for kind, content in _chunks(data):
        if kind == b"IHDR" and len(content) >= _SIZE.size:
            width, height = _SIZE.unpack_from(content)
            if width * height > max_pixels:
                raise ImageTooLarge(f"{width} x {height} pixels are more than {max_pixels}")
        left -= _inflated(_compressed(kind, bytes(content)), left) if kind in _COMPRESSED else 0


def _chunks(data: bytes) -> Iterator[tuple[bytes, memoryview]]:
    view, start, kind = memoryview(data), len(SIGNATURE), b""
    while kind != b"IEND":
        frame = view[start : start + 8]
        end = start + _FRAME + (_LENGTH.unpack(frame[:4])[0] if len(frame) == 8 else 0)
        if len(frame) < 8 or end > len(view):
            raise ImageUndecodable(f"the PNG of {len(data)} bytes ends before its last chunk does")
        kind = bytes(frame[4:])
        # The parser skips the checksums of the pixels, so that a flipped bit there may pass as a picture.
        if zlib.crc32(view[start + 4 : end - 4]) != _LENGTH.unpack(view[end - 4 : end])[0]:
            raise ImageUndecodable(f"the checksum of the PNG's chunk {kind!r} is wrong")
        yield kind, view[start + 8 : end - 4]
        start = end


def _compressed(kind: bytes, content: bytes) -> bytes:
    """What a chunk of text or profile has compressed, behind its keyword and the names of its languages."""
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
        # Without a meaning it is no danger: the parser drops it.
        return 0
    if size > most:
        raise ImageUndecodable(f"the PNG's texts and profiles inflate to more than {MOST_INFLATED} bytes")
    return size
