"""A safetensors file is checked by its header before anything of it is loaded."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError, safe_open

from faultline_core.errors import ModelFormatRefused


def require_readable(file: Path) -> None:
    """Refuse what is no safetensors file: another format, a header that lies, tensors that overlap.

    Raises:
        ModelFormatRefused: it is one of these, or cannot be read.
    """
    try:
        # The library holds the header against the file's size and the tensors against each other.
        with safe_open(file, framework="numpy"):
            pass
    except SafetensorError as error:
        raise ModelFormatRefused(f"{_told(file)} is no safetensors file: {error}") from error
    except OSError as error:
        raise ModelFormatRefused(f"{_told(file)} cannot be read") from error


def _told(file: Path) -> str:
    return f"{file.name!r} of {file.parent.name!r}"
