"""Writing the files that a caller asked for, and showing one in the browser."""

from __future__ import annotations

import base64
import os
import re
import tempfile
import webbrowser
from pathlib import Path

from counterpose_core.errors import InvalidRequest

_HELD = re.compile(r'download="(findings\.csv|report\.md)" href="data:[^",]*;base64,([A-Za-z0-9+/=]*)"')
"""The files that a report may hold, by name: a page must not choose where it is written."""


def write_text(path: Path, text: str) -> Path:
    """Write a text file and return its path.

    Raises:
        InvalidRequest: the file cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidRequest(f"cannot write {str(path)!r}: {error}") from error
    return path


def write_bytes(path: Path, data: bytes) -> Path:
    """Write a file, make its parent folders, and return its path; raises as `write_text`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        raise InvalidRequest(f"cannot write {str(path)!r}: {error}") from error
    return path


def save_page(path: Path, html: str) -> Path:
    """Write a report and, beside it, the files that it holds for download; return the report's path.

    A folder gets ``report.html``, ``report.md`` and ``findings.csv``. Beside ``night.html`` stand
    ``night.md`` and ``night.findings.csv``, so that reports of one folder do not overwrite each other's; a
    path that does not end in ``.html`` gets the page alone.

    Raises:
        InvalidRequest: a file cannot be written.
    """
    in_folder = path.is_dir()
    page = write_text(path / "report.html" if in_folder else path, html)
    if page.suffix == ".html":
        for name, data in _HELD.findall(html):
            beside = name if in_folder else _beside(page, name)
            write_bytes(page.with_name(beside), base64.b64decode(data))
    return page


def _beside(page: Path, name: str) -> str:
    return f"{page.stem}.md" if name == "report.md" else f"{page.stem}.{name}"


def open_page(html: str, run_id: str) -> Path:
    """Write a page to a new temporary file, show it in the browser, and return its path.

    The file is kept: a browser reads it again when the page is reloaded.

    Raises:
        InvalidRequest: the file cannot be written.
    """
    # A name that cannot be guessed, readable by its owner alone: a report may show private images.
    handle, name = tempfile.mkstemp(prefix=f"counterpose-{run_id[:8]}-", suffix=".html")
    os.close(handle)
    path = write_text(Path(name), html)
    webbrowser.open(path.as_uri())
    return path
