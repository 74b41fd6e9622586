"""Writing the files that a caller asked for, and showing one in the browser."""

from __future__ import annotations

import os
import tempfile
import webbrowser
from pathlib import Path

from faultline_core.errors import InvalidRequest


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


def open_page(html: str, run_id: str) -> Path:
    """Write a page to a new temporary file, show it in the browser, and return its path.

    The file is kept: a browser reads it again when the page is reloaded.

    Raises:
        InvalidRequest: the file cannot be written.
    """
    # A name that cannot be guessed, readable by its owner alone: a report may show private images.
    handle, name = tempfile.mkstemp(prefix=f"faultline-{run_id[:8]}-", suffix=".html")
    os.close(handle)
    path = write_text(Path(name), html)
    webbrowser.open(path.as_uri())
    return path
