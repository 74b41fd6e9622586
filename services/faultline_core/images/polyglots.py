"""Detect other media, and polyglot images that can also be read as another format, by signatures."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from faultline_core.images.png_chunks import SIGNATURE, chunks

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
_JPEG, _SCAN, _COMMENT = b"\xff\xd8", b"\xda", b"\xfe"
_PNG_TEXTS = frozenset({b"tEXt", b"iTXt", b"zTXt"})
_ZIP_END = struct.Struct("<4s4H2LH")
_ZIP_END_SIGNATURE, _ZIP_ENTRY_SIGNATURE = b"PK\x05\x06", b"PK\x01\x02"
_LONGEST_ZIP_COMMENT = 2**16 - 1


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
    if data.startswith(_JPEG):
        yield from _jpeg_comments(data)
    elif data.startswith(SIGNATURE):
        yield from (bytes(content) for kind, content in chunks(data) if kind in _PNG_TEXTS)
        yield data[data.rfind(b"IEND") :]


def _jpeg_comments(data: bytes) -> Iterator[bytes]:
    """Yield the comments among the segments before the first scan (ITU T.81, annex B)."""
    start = len(_JPEG)
    while data[start : start + 1] == b"\xff" and (marker := data[start + 1 : start + 2]) != _SCAN:
        # Any number of fill bytes may precede a marker.
        if marker == b"\xff":
            start += 1
            continue
        end = start + 2 + int.from_bytes(data[start + 2 : start + 4])
        if marker == _COMMENT:
            yield data[start + 4 : end]
        start = end


def _ends_as_zip(data: bytes) -> bool:
    """Return True if the data ends as a ZIP archive; archives are read from their end."""
    end = data.rfind(_ZIP_END_SIGNATURE, max(0, len(data) - _ZIP_END.size - _LONGEST_ZIP_COMMENT))
    if end < 0 or end + _ZIP_END.size > len(data):
        return False
    directory = end - _ZIP_END.unpack_from(data, end)[5]
    # Four bytes alone also occur by chance in the compressed pixels of one in some 60,000 images.
    return directory >= 0 and data[directory : directory + 4] == _ZIP_ENTRY_SIGNATURE
