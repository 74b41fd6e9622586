"""Pictures in and out: still PNG, JPEG or WebP, or raw bytes with a shape header."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, PngImagePlugin, UnidentifiedImageError

from faultline_core.errors import ImageTooLarge, ImageUndecodable, UnsupportedMedia
from faultline_core.file_signatures import is_other_media, second_nature
from faultline_core.png_chunks import SIGNATURE, check_chunks

Pixels = npt.NDArray[np.uint8]
"""A picture as uint8 of shape (H, W, 3), red-green-blue."""

# 48 MB decoded: a picture this large still fits a worker several times over.
MAX_PIXELS = 16_000_000
FORMATS = ("PNG", "JPEG", "WEBP")
XMP_KEYWORD = "XML:com.adobe.xmp"

_RAW_MAGIC = b"FLRAW1"
_RAW_HEADER = struct.Struct("<III")
# Pillow's parsers raise all of these on damaged files; none of them may reach a worker's loop.
_PARSER_ERRORS = (
    OSError, SyntaxError, ValueError, TypeError, KeyError, IndexError, EOFError, OverflowError,
    AttributeError, struct.error, zlib.error,
)  # fmt: skip


def decode_image(data: bytes, *, max_pixels: int = MAX_PIXELS) -> Pixels:
    """Decode a still PNG, JPEG, WebP or raw picture to uint8 (H, W, 3).

    The EXIF rotation is applied once, transparency lies on white, 16-bit levels are scaled to 8;
    colour profiles and all other metadata are left behind.

    Raises:
        ImageUndecodable: no readable picture, a truncated one, or one with a wrong checksum.
        ImageTooLarge: more than ``max_pixels``; found before decoding.
        UnsupportedMedia: another format, an animation, or a file that can be read as something else too.
    """
    if data.startswith(_RAW_MAGIC):
        return _decode_raw(data, max_pixels)
    if data.startswith(SIGNATURE):
        check_chunks(data, max_pixels=max_pixels)
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as picture:
            _refuse_unwanted(picture, max_pixels)
            if other := second_nature(data):
                raise UnsupportedMedia(f"the picture can be read as {other} too")
            return _to_rgb(_upright(picture))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ImageTooLarge(f"the picture has more than {max_pixels} pixels") from error
    except UnidentifiedImageError as error:
        raise _unidentified(data) from error
    except _PARSER_ERRORS as error:
        raise ImageUndecodable(f"the {len(data)} bytes are broken as a picture") from error


def encode_raw(array: Pixels) -> bytes:
    """Put uint8 (H, W, 3) behind a shape header: exact, and as fast as a copy."""
    pixels = _checked(array)
    return _RAW_MAGIC + _RAW_HEADER.pack(*pixels.shape) + pixels.tobytes()


def encode_png(array: Pixels, *, text: Mapping[str, str] | None = None) -> bytes:
    """Encode uint8 (H, W, 3) as PNG carrying ``text`` chunks; the pixels stay exactly the same."""
    notes = PngImagePlugin.PngInfo()
    for keyword, value in (text or {}).items():
        if keyword == XMP_KEYWORD:
            notes.add_itxt(keyword, value)
        else:
            notes.add_text(keyword, value)
    buffer = io.BytesIO()
    Image.fromarray(_checked(array)).save(buffer, format="PNG", pnginfo=notes, compress_level=3)
    return buffer.getvalue()


def _checked(array: Pixels) -> Pixels:
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3 or array.size == 0:
        raise ValueError(f"a picture is uint8 (H, W, 3), not {array.dtype} {array.shape}")
    return np.ascontiguousarray(array)


def _decode_raw(data: bytes, max_pixels: int) -> Pixels:
    body = len(_RAW_MAGIC) + _RAW_HEADER.size
    if len(data) < body:
        raise ImageUndecodable("the raw picture ends within its header")
    height, width, channels = _RAW_HEADER.unpack_from(data, len(_RAW_MAGIC))
    # Before anything is allocated: twelve bytes of header can claim four billion pixels a side.
    if height * width > max_pixels:
        raise ImageTooLarge(f"{width} x {height} pixels are more than {max_pixels}")
    # The exact length, as a truncated or padded body would otherwise be shown as a picture.
    if channels != 3 or height * width == 0 or len(data) - body != height * width * 3:
        raise ImageUndecodable(f"the raw picture of {len(data)} bytes does not hold {width} x {height} x 3")
    return np.frombuffer(data, np.uint8, offset=body).reshape(height, width, 3).copy()


def _refuse_unwanted(picture: Image.Image, max_pixels: int) -> None:
    # Pillow has read no more than the header here.
    width, height = picture.size
    if width * height > max_pixels:
        raise ImageTooLarge(f"{width} x {height} pixels are more than {max_pixels}")
    # Phones append depth and gain maps to a JPEG as further frames; its first frame is the photo.
    if picture.format in ("PNG", "WEBP") and getattr(picture, "n_frames", 1) > 1:
        raise UnsupportedMedia(f"an animated {picture.format} is not accepted")


def _upright(picture: Image.Image) -> Image.Image:
    picture.load()
    try:
        return ImageOps.exif_transpose(picture)
    except _PARSER_ERRORS:
        # Many cameras write broken EXIF; the pixels are whole, so they stay as they are stored.
        return picture


def _to_rgb(picture: Image.Image) -> Pixels:
    if picture.mode.startswith("I") or picture.mode == "F":
        # Pillow's own conversion clips 16-bit levels to white instead of scaling them.
        levels = np.clip(np.asarray(picture).astype(np.float64) / 257.0, 0, 255)
        return np.repeat(np.rint(levels).astype(np.uint8)[:, :, None], 3, axis=2)
    if picture.has_transparency_data:
        layer = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
    return np.array(picture.convert("RGB"), dtype=np.uint8)


def _unidentified(data: bytes) -> ImageUndecodable | UnsupportedMedia:
    # Told apart so that the answer is "another format" and not "broken".
    if is_other_media(data):
        return UnsupportedMedia("only still PNG, JPEG and WebP pictures are read")
    return ImageUndecodable(f"the {len(data)} bytes are no picture")
