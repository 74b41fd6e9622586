"""Archives of exports, intact and damaged."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping

import httpx

CARD = "README.md"
FILES = {"data/one.png": b"png", CARD: b"# Images\n"}


def archive(files: Mapping[str, bytes] = FILES, *links: str) -> bytes:
    """A tar of these files, and of links with these names to a file outside."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as tar:
        for name in links:
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(link)
        for name, data in files.items():
            told = tarfile.TarInfo(name)
            told.size = len(data)
            tar.addfile(told, io.BytesIO(data))
    return held.getvalue()


def export_answer(data: bytes | None = None) -> httpx.Response:
    """The answer that holds an export."""
    content = archive() if data is None else data
    return httpx.Response(200, content=content, headers={"content-type": "application/x-tar"})
