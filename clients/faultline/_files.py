"""Writing the files that a caller asked for."""

from __future__ import annotations

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
