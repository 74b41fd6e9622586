"""What bytes are when they are no picture of ours, and what a picture is besides: known by signatures."""

from __future__ import annotations

import re
import struct

_STARTS = (
    b"GIF8", b"BM", b"II*\x00", b"II+\x00", b"MM\x00*", b"MM\x00+", b"%PDF", b"%!PS", b"\xc5\xd0\xd3\xc6",
    b"8BPS", b"\x00\x00\x01\x00", b"\x00\x00\x02\x00", b"SIMPLE  =", b"<?xml", b"PK\x03\x04",
    b"\x00\x00\x00\x0cjP", b"\xff\x4f\xff\x51", b"\xff\x0a", b"qoif", b"DDS ", b"icns",
)  # fmt: skip
# Drawings may begin with comments and a document type; readers of PDF search the first kilobyte for theirs.
_HEAD = 1024
_MARKUP = re.compile(rb"<script|<\?php|<html|<!doctype", re.IGNORECASE)
# The length of the first segment opens a comment in JavaScript: no length that a JFIF header can have.
_JPEG_AS_SCRIPT = b"\xff\xd8\xff\xe0/*"
_ZIP_END = struct.Struct("<4s4H2LH")
_ZIP_END_SIGNATURE, _ZIP_ENTRY_SIGNATURE = b"PK\x05\x06", b"PK\x01\x02"
_LONGEST_ZIP_COMMENT = 2**16 - 1


def is_other_media(data: bytes) -> bool:
    """Tell whether ``data`` is a picture or a document of a kind that is not read."""
    head = data[:_HEAD].removeprefix(b"\xef\xbb\xbf").lstrip()
    if head.startswith(_STARTS) or data[4:8] == b"ftyp":
        return True
    return head.startswith(b"<") and b"<svg" in head.lower()


def second_nature(data: bytes) -> str | None:
    """Name what a file that opens as a picture can be read as too, or None where it is a picture only."""
    if data.startswith(_JPEG_AS_SCRIPT):
        return "a script"
    if b"%PDF-" in data[:_HEAD]:
        return "a PDF"
    if _MARKUP.search(data):
        return "a page with markup"
    return "a ZIP archive" if _ends_as_zip(data) else None


def _ends_as_zip(data: bytes) -> bool:
    """Archives are read from their end, whatever stands before them."""
    end = data.rfind(_ZIP_END_SIGNATURE, max(0, len(data) - _ZIP_END.size - _LONGEST_ZIP_COMMENT))
    if end < 0 or end + _ZIP_END.size > len(data):
        return False
    directory = end - _ZIP_END.unpack_from(data, end)[5]
    # Four bytes alone come about in compressed pixels, once in some 60,000 pictures.
    return directory >= 0 and data[directory : directory + 4] == _ZIP_ENTRY_SIGNATURE
