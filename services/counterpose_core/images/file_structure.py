"""The structure of image files, checked before a parser reads them: PNG chunks, JPEG scans, polyglots.

Pillow's `verify()` checks the checksums of PNG chunks too, but does not limit the total size to which the
texts and profiles of a file inflate.
"""

from __future__ import annotations

import math
import re
import struct
import zlib
from collections.abc import Iterator
from itertools import takewhile

from counterpose_core.errors import ImageTooLarge, ImageUndecodable

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MOST_INFLATED = 2**20
"""The total bytes to which texts and profiles of one file may inflate; a camera's take some thousands."""

MAX_CHUNKS = 20_000
"""The largest upload in the 8 KB chunks that most programs write has 6,000; each takes 4 microseconds."""

MAX_SCANS = 32
"""Cameras and optimizers write at most a dozen; each may take 30 bytes, and walks over all pixels again."""

MAX_SEGMENTS = 1000
"""The largest file has 750 of 64 kB. For each of EXIF data, Pillow copies all that came before."""

MOST_COEFFICIENTS = 100_000_000
"""A JPEG of several scans is held in numbers of two bytes while it is decoded, a plain one is not."""

_LENGTH, _SIZE, _SIDES = struct.Struct(">I"), struct.Struct(">II"), struct.Struct(">HH")
_COMPRESSED = frozenset({b"zTXt", b"iTXt", b"iCCP"})
_FRAME = 12
"""Bytes of a chunk in addition to its content: length, kind, checksum."""

_STARTS = (
    b"GIF8", b"BM", b"II*\x00", b"II+\x00", b"MM\x00*", b"MM\x00+", b"%PDF", b"%!PS", b"\xc5\xd0\xd3\xc6",
    b"8BPS", b"\x00\x00\x01\x00", b"\x00\x00\x02\x00", b"SIMPLE  =", b"<?xml", b"PK\x03\x04",
    b"\x00\x00\x00\x0cjP", b"\xff\x4f\xff\x51", b"\xff\x0a", b"qoif", b"DDS ", b"icns",
)  # fmt: skip
# SVG may begin with comments and a document type; PDF readers search the first kilobyte for their signature.
_HEAD = 1024
_MARKUP = re.compile(rb"<script|<\?php|<html|<!doctype", re.IGNORECASE)
# The length of the first segment opens a JavaScript comment, which no JFIF header has as its length.
_JPEG_AS_SCRIPT = b"\xff\xd8\xff\xe0/*"
JPEG = b"\xff\xd8"
_SCAN, _COMMENT, _END = 0xDA, 0xFE, 0xD9
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_PROGRESSIVE = frozenset({0xC2, 0xC6, 0xCA, 0xCE})
# Those that a length follows: no escaped byte, no restart, and neither TEM (01) nor another start (D8). Who
# reads a length behind one of these passes over scans that a decoder does not.
_MARKER = re.compile(rb"\xff+([\x02-\xcf\xd9-\xfe])")
_PNG_TEXTS = frozenset({b"tEXt", b"iTXt", b"zTXt"})
_ZIP_END = struct.Struct("<4s4H2LH")
_ZIP_END_SIGNATURE, _ZIP_ENTRY_SIGNATURE = b"PK\x05\x06", b"PK\x01\x02"
_LONGEST_ZIP_COMMENT = 2**16 - 1


def check_chunks(data: bytes, *, max_pixels: int, max_chunks: int = MAX_CHUNKS) -> None:
    """Check the checksum and number of a PNG's chunks and the total inflated size of its texts and profiles.

    Raises:
        ImageTooLarge: its header announces more than ``max_pixels``.
        ImageUndecodable: a chunk is cut short or its checksum is wrong, the last one is missing, there are
            too many, or the texts and profiles inflate to more than ``MOST_INFLATED``.
    """
    left = MOST_INFLATED
    for number, (kind, content) in enumerate(chunks(data), start=1):
        if number > max_chunks:
            raise ImageUndecodable(
                f"the PNG has more than {max_chunks} chunks (COUNTERPOSE_MAX_PNG_CHUNKS); export it again"
            )
        if kind == b"IHDR" and len(content) >= _SIZE.size:
            width, height = _SIZE.unpack_from(content)
            if width * height > max_pixels:
                raise ImageTooLarge(
                    f"the image has {width} x {height} pixels, more than {max_pixels}; scale it down"
                )
        left -= _inflated(_compressed(kind, bytes(content)), left) if kind in _COMPRESSED else 0


def check_scans(data: bytes) -> None:
    """Check the number of a JPEG's scans, of which a small file may have thousands, and what they hold.

    Raises:
        ImageUndecodable: there are more than `MAX_SCANS`, or more than `MAX_SEGMENTS` segments of any kind.
        ImageTooLarge: there are several, and the image has more than `MOST_COEFFICIENTS`.
    """
    scans, progressive, coefficients = 0, False, 0
    for marker, content in _segments(data):
        scans += marker == _SCAN
        if marker in _FRAMES:
            progressive |= marker in _PROGRESSIVE
            coefficients = max(coefficients, _coefficients(content))
    if scans > MAX_SCANS:
        raise ImageUndecodable(f"the JPEG has more than {MAX_SCANS} scans; export the image again")
    if (progressive or scans > 1) and coefficients > MOST_COEFFICIENTS:
        raise ImageTooLarge(
            f"the JPEG has {coefficients:,} coefficients in several scans, more than {MOST_COEFFICIENTS:,}; "
            "save it without progressive scans"
        )


def jpeg_sides(data: bytes) -> tuple[int, int]:
    """Return the height and width of a JPEG by its largest frame; zeros if it has none.

    Raises:
        ImageUndecodable: there are more than `MAX_SEGMENTS`.
    """
    headers = takewhile(lambda segment: segment[0] != _SCAN, _segments(data))
    frames = (_sides(content) for marker, content in headers if marker in _FRAMES)
    return max(frames, key=math.prod, default=(0, 0))


def _sides(frame: bytes) -> tuple[int, int]:
    """Return the height and width that the content of a frame's segment says."""
    height, width = _SIDES.unpack_from(frame, 1) if len(frame) > _SIDES.size else (0, 0)
    return height, width


def _coefficients(frame: bytes) -> int:
    """Return how many numbers a decoder keeps of all components of a frame, each by its sampling factors."""
    factors = [(each >> 4, each & 15) for each in frame[7::3]]
    most = max((across for across, _ in factors), default=0) * max((down for _, down in factors), default=0)
    return math.prod(_sides(frame)) * sum(map(math.prod, factors)) // max(most, 1)


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


def is_other_media(data: bytes) -> bool:
    """Return True if ``data`` is an image or a document of an unsupported kind."""
    head = data[:_HEAD].removeprefix(b"\xef\xbb\xbf").lstrip()
    if head.startswith(_STARTS) or data[4:8] == b"ftyp":
        return True
    return head.startswith(b"<") and b"<svg" in head.lower()


def other_format(data: bytes) -> str | None:
    """Return the other format that an image file can also be read as, or None."""
    if data.startswith(_JPEG_AS_SCRIPT):
        return "a script"
    if b"%PDF-" in data[:_HEAD]:
        return "a PDF"
    if any(_MARKUP.search(part) for part in _parts_with_text(data)):
        return "a page with markup"
    return "a ZIP archive" if _ends_as_zip(data) else None


def _parts_with_text(data: bytes) -> Iterator[bytes]:
    """Yield the parts of an image that may contain markup: its head, its comments and the data after its end.

    Compressed pixels are left out: among millions of photographs, some contain such letters by chance.
    """
    yield data[:_HEAD]
    if data.startswith(JPEG):
        yield from _jpeg_comments(data)
    elif data.startswith(SIGNATURE):
        yield from (bytes(content) for kind, content in chunks(data) if kind in _PNG_TEXTS)
        yield data[data.rfind(b"IEND") :]


def _jpeg_comments(data: bytes) -> Iterator[bytes]:
    """Yield the comments among the segments before the first scan."""
    for marker, content in takewhile(lambda segment: segment[0] != _SCAN, _segments(data)):
        if marker == _COMMENT:
            yield content


def _segments(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the marker and content of each segment of a JPEG, up to its end (ITU T.81, annex B).

    Raises:
        ImageUndecodable: there are more than `MAX_SEGMENTS`.
    """
    start, count = len(JPEG), 0
    while (found := _MARKER.search(data, start)) and (marker := found[1][0]) != _END:
        count += 1
        if count > MAX_SEGMENTS:
            raise ImageUndecodable(f"the JPEG has more than {MAX_SEGMENTS} segments; export the image again")
        start = found.end() + int.from_bytes(data[found.end() : found.end() + 2])
        yield marker, data[found.end() + 2 : start]


def _ends_as_zip(data: bytes) -> bool:
    """Return True if the data ends as a ZIP archive; archives are read from their end."""
    end = data.rfind(_ZIP_END_SIGNATURE, max(0, len(data) - _ZIP_END.size - _LONGEST_ZIP_COMMENT))
    if end < 0 or end + _ZIP_END.size > len(data):
        return False
    directory = end - _ZIP_END.unpack_from(data, end)[5]
    # Four bytes alone also occur by chance in the compressed pixels of one in some 60,000 images.
    return directory >= 0 and data[directory : directory + 4] == _ZIP_ENTRY_SIGNATURE
