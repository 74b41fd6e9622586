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
        raise ModelFormatRefused(
            f"{_told(file)} is not a safetensors file ({error}); convert the weights to safetensors"
        ) from error
    except OSError as error:
        raise ModelFormatRefused(
            f"{_told(file)} cannot be read; check that the file exists and is readable"
        ) from error


def require_safetensors(folder: Path) -> None:
    """Refuse a folder whose weights are not safetensors.

    Raises:
        ModelFormatRefused: no ``*.safetensors`` file lies in it, or one that is none.
    """
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ModelFormatRefused(
            f"the folder {folder.name!r} has no safetensors weights; convert its weights to safetensors"
        )
    for file in files:
        require_readable(file)


def _told(file: Path) -> str:
    return f"{file.name!r} of {file.parent.name!r}"
