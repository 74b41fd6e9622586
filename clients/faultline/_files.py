"""Files that a caller asked for: written, or refused by name."""

from __future__ import annotations

from pathlib import Path

from faultline_core.errors import InvalidRequest


def write_text(path: Path, text: str) -> Path:
    """Write a text file and return its path.

    Raises:
        InvalidRequest: it cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidRequest(f"nothing can be written to {str(path)!r}: {error}") from error
    return path


def write_bytes(path: Path, data: bytes) -> Path:
    """Write a file, and the folders that it lies in, and return its path; raises as `write_text`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        raise InvalidRequest(f"nothing can be written to {str(path)!r}: {error}") from error
    return path
