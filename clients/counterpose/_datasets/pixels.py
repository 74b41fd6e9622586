"""An image object as the bytes of a file: PIL images, arrays and tensors, recognised by their methods."""

from __future__ import annotations

import importlib
import io
import struct
import zlib
from pathlib import Path
from typing import Any

from counterpose_core.errors import InvalidRequest

_PNG_MODES = frozenset({"1", "L", "LA", "P", "RGB", "RGBA"})
_WITH_ALPHA = {"La": "LA", "PA": "RGBA", "RGBa": "RGBA"}
"""Modes that no PNG has, and those that keep their transparency."""
_ORIENTATION = 0x0112
"""The EXIF tag for how a photograph was held."""
_COLOUR_TYPES = {1: 0, 3: 2, 4: 6}
"""PNG's number for grey, RGB and RGBA, by channels."""


def encoded(image: Any, about: str) -> bytes:
    """Return an image as the bytes of a PNG; bytes of a file stay as they are.

    Args:
        image: a PIL image; an array (height, width), (height, width, 1, 3 or 4); a tensor
            (1, 3 or 4, height, width); bytes of a file; or a mapping with ``bytes`` or ``path``.
        about: which row this is, for messages.

    Raises:
        InvalidRequest: it is none of these, or its values are out of range.
    """
    if isinstance(image, (bytes, bytearray)):
        return bytes(image)
    if isinstance(image, dict):
        return _undecoded(image, about)
    if hasattr(image, "save") and hasattr(image, "mode"):
        return _saved(_upright(image), about)
    if hasattr(image, "detach") or hasattr(image, "__array__"):
        return _png(_uint8(image, about))
    raise InvalidRequest(
        f"{about} is a {type(image).__name__}, not an image: expected a PIL image or an array"
    )


def _saved(image: Any, about: str) -> bytes:
    """Return a PIL image as a PNG that shows what the image's own file would."""
    if image.mode == "F":
        return _png(_uint8(image, about))
    if image.mode.startswith("I"):
        # A PNG has 16 bits, as the file had: Pillow's conversion to RGB would clip them to white.
        low, high = image.convert("I").getextrema()
        if not (low >= 0 and high <= 65535) or 0 < high <= 255:
            raise InvalidRequest(
                f"{about} has mode {image.mode!r} and values from {low} to {high}: expected 16-bit levels, "
                "up to 65535; convert 8-bit levels to mode 'L'"
            )
        image = image.convert("I").convert("I;16")
    elif image.mode not in _PNG_MODES:
        image = image.convert(_WITH_ALPHA.get(image.mode, "RGB"))
    file = io.BytesIO()
    image.save(file, format="PNG")
    return file.getvalue()


def _upright(image: Any) -> Any:
    """Turn a photograph as its EXIF data say, which a PNG would lose."""
    try:
        if image.getexif().get(_ORIENTATION, 1) == 1:
            return image
        return importlib.import_module("PIL.ImageOps").exif_transpose(image)
    # Many cameras write broken EXIF; the gateway keeps the orientation of such a file, too.
    except Exception:
        return image


def _undecoded(image: dict[Any, Any], about: str) -> bytes:
    if isinstance(image.get("bytes"), bytes):
        return bytes(image["bytes"])
    try:
        return Path(image["path"]).read_bytes()
    except (KeyError, TypeError, OSError) as error:
        raise InvalidRequest(f"{about} has neither bytes nor a readable path: {error}") from error


def _uint8(image: Any, about: str) -> Any:
    """Return an array (height, width, channels) of uint8."""
    numpy = importlib.import_module("numpy")
    is_tensor = hasattr(image, "detach")
    found = numpy.asarray(image.detach().cpu().numpy() if is_tensor else image)
    if found.ndim == 2:
        found = found[:, :, None]
    elif is_tensor and found.ndim == 3:
        # torchvision puts the channels first.
        found = found.transpose(1, 2, 0)
    if found.ndim != 3 or found.shape[2] not in _COLOUR_TYPES or not found.size:
        layout = "(channels, height, width)" if is_tensor else "(height, width, channels)"
        raise InvalidRequest(
            f"{about} has shape {tuple(image.shape)}: expected {layout} with 1, 3 or 4 channels"
        )
    low, high = found.min(), found.max()
    most = 255 if found.dtype.kind in "iu" else 1
    # Written so that NaN is refused, too.
    if found.dtype.kind not in "iufb" or not (low >= 0 and high <= most):
        raise InvalidRequest(
            f"{about} has values from {low} to {high}: expected integers from 0 to 255, or floats "
            "from 0 to 1, before any normalisation"
        )
    return found.astype(numpy.uint8) if most == 255 else numpy.rint(found * 255.0).astype(numpy.uint8)


def _png(pixels: Any) -> bytes:
    """Write an array (height, width, channels) of uint8 as a PNG."""
    height, width, channels = pixels.shape
    # Each row begins with its filter; 0 is none.
    rows = b"".join(b"\x00" + pixels[at].tobytes() for at in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in chunks)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
