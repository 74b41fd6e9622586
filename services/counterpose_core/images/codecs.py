"""Decode and encode images: still PNG, JPEG or WebP, or raw bytes with a shape header."""

from __future__ import annotations

import io
import math
import struct
import threading
import zlib
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, PngImagePlugin, UnidentifiedImageError

from counterpose_core.errors import ImageTooLarge, ImageUndecodable, UnsupportedMedia
from counterpose_core.images.file_structure import (
    JPEG,
    MAX_CHUNKS,
    SIGNATURE,
    check_chunks,
    check_scans,
    is_other_media,
    jpeg_sides,
    other_format,
)
from counterpose_core.images.lossless_webp import check_groups

Pixels = npt.NDArray[np.uint8]
"""An image as uint8 of shape (H, W, 3), red-green-blue."""

# 48 MB decoded: a worker can hold several images of this size.
MAX_PIXELS = 16_000_000
LARGEST_PHOTOGRAPH = 4 * MAX_PIXELS
"""The pixels of an image that is taken in; above `MAX_PIXELS`, half of each side is stored."""
FORMATS = ("PNG", "JPEG", "WEBP")
XMP_KEYWORD = "XML:com.adobe.xmp"

_RAW_MAGIC = b"FLRAW1"
_RAW_HEADER = struct.Struct("<III")
_BAND = 256
"""Rows that are converted at once."""
_ONE_AT_A_TIME = threading.Lock()
"""A PNG of the largest size is 256 MB before it is halved: requests that come together take turns."""
# Pillow's parsers raise all of these on damaged files; none may reach a worker's loop.
_PARSER_ERRORS = (
    OSError, SyntaxError, ValueError, TypeError, KeyError, IndexError, EOFError, OverflowError,
    AttributeError, struct.error, zlib.error,
)  # fmt: skip


def decode_image(data: bytes, *, max_pixels: int = MAX_PIXELS, max_chunks: int = MAX_CHUNKS) -> Pixels:
    """Decode a still PNG, JPEG, WebP or raw image to uint8 (H, W, 3).

    The EXIF rotation is applied, transparency is composited on white, and 16-bit levels are scaled to 8 bits.
    Colour profiles and all other metadata are dropped. An image of more than `MAX_PIXELS`, which only a
    larger ``max_pixels`` lets in, is halved while it is decoded, as `_halved` says.

    Raises:
        ImageUndecodable: the bytes are not an image, are truncated, have a wrong checksum, or are a PNG of
            more than ``max_chunks`` chunks, or a JPEG of more scans than `check_scans` lets in.
        ImageTooLarge: the image has more than ``max_pixels``, or is a WebP of more groups of codes than
            `check_groups` lets in; this is checked before decoding.
        UnsupportedMedia: the file has another format, is an animation, or can also be read as another format.
    """
    if data.startswith(_RAW_MAGIC):
        return _decode_raw(data, min(max_pixels, MAX_PIXELS))
    if data.startswith(SIGNATURE):
        check_chunks(data, max_pixels=max_pixels, max_chunks=max_chunks)
    elif data.startswith(JPEG):
        check_scans(data)
    elif data[8:12] == b"WEBP":
        check_groups(data)
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            _refuse_unwanted(image, max_pixels)
            if other := other_format(data):
                raise UnsupportedMedia(
                    f"the image file can also be read as {other}; save it again as a plain PNG or JPEG"
                )
            if image.width * image.height > MAX_PIXELS:
                return _halved(image)
            return _to_rgb(_upright(image))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ImageTooLarge(f"the image has more than {max_pixels} pixels; scale it down") from error
    except UnidentifiedImageError as error:
        raise _unidentified(data) from error
    except _PARSER_ERRORS as error:
        raise ImageUndecodable(
            f"the image of {len(data)} bytes is damaged or cut off; export it again"
        ) from error


def pixel_count(data: bytes) -> int:
    """Return how many pixels an image has by its header; 0 where `decode_image` refuses it unread."""
    return math.prod(stated_sides(data))


def stated_sides(data: bytes) -> tuple[int, int]:
    """Return the height and width of an image by its header; zeros where `decode_image` refuses it unread.

    The first 64 bytes are enough of a raw image, a PNG and a lossless WebP. Pillow opens a WebP alone: of a
    PNG and a JPEG it would read all texts and profiles, which nobody has counted yet.
    """
    if data.startswith(_RAW_MAGIC):
        header = data[len(_RAW_MAGIC) :][: _RAW_HEADER.size]
        height, width, _ = _RAW_HEADER.unpack(header) if len(header) == _RAW_HEADER.size else (0, 0, 0)
        return height, width
    if data.startswith(SIGNATURE):
        whole = data[12:16] == b"IHDR" and len(data) >= 24
        width, height = struct.unpack_from(">II", data, 16) if whole else (0, 0)
        return height, width
    if data[8:16] == b"WEBPVP8L" and data[20:21] == b"/" and len(data) >= 25:
        # As the store packs images: its first bytes tell the size, but Pillow wants all of them.
        sides = int.from_bytes(data[21:25], "little")
        return (sides >> 14 & 0x3FFF) + 1, (sides & 0x3FFF) + 1
    try:
        if data.startswith(JPEG):
            return jpeg_sides(data)
        with Image.open(io.BytesIO(data), formats=["WEBP"]) as image:
            return image.height, image.width
    except (
        *_PARSER_ERRORS,
        ImageUndecodable,
        UnidentifiedImageError,
        Image.DecompressionBombError,
        Image.DecompressionBombWarning,
    ):
        return 0, 0


def encode_raw(array: Pixels) -> bytes:
    """Encode uint8 (H, W, 3) as raw bytes after a shape header: lossless, and as fast as a copy."""
    return b"".join(raw_parts(array))


def raw_parts(array: Pixels) -> tuple[bytes, memoryview]:
    """Return the two parts of what `encode_raw` returns, without a copy of the pixels."""
    pixels = _checked(array)
    return _RAW_MAGIC + _RAW_HEADER.pack(*pixels.shape), pixels.data


def encode_png(array: Pixels, *, text: Mapping[str, str] | None = None) -> bytes:
    """Encode uint8 (H, W, 3) losslessly as PNG with ``text`` chunks, by keyword."""
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
        raise ValueError(f"an image must be uint8 (H, W, 3), not {array.dtype} {array.shape}")
    return np.ascontiguousarray(array)


def _decode_raw(data: bytes, max_pixels: int) -> Pixels:
    body = len(_RAW_MAGIC) + _RAW_HEADER.size
    if len(data) < body:
        raise ImageUndecodable(f"the raw image of {len(data)} bytes ends within its header; send it whole")
    height, width, channels = _RAW_HEADER.unpack_from(data, len(_RAW_MAGIC))
    # Checked before allocation: twelve bytes of header can claim four billion pixels per side.
    if height * width > max_pixels:
        raise ImageTooLarge(f"the image has {width} x {height} pixels, more than {max_pixels}; scale it down")
    # The length must be exact, or a truncated or padded body would be shown as an image.
    if channels != 3 or height * width == 0 or len(data) - body != height * width * 3:
        raise ImageUndecodable(
            f"the raw image of {len(data)} bytes does not hold {width} x {height} x 3; send uint8 RGB"
        )
    return np.frombuffer(data, np.uint8, offset=body).reshape(height, width, 3).copy()


def _refuse_unwanted(image: Image.Image, max_pixels: int) -> None:
    # At this point Pillow has read only the header.
    width, height = image.size
    if width * height > max_pixels:
        raise ImageTooLarge(f"the image has {width} x {height} pixels, more than {max_pixels}; scale it down")
    # Its decoder holds the whole image four times over, a gigabyte of the largest photograph.
    if width * height > MAX_PIXELS and image.format == "WEBP":
        raise ImageTooLarge(
            f"the WebP has {width} x {height} pixels, more than {MAX_PIXELS}; save it as a JPEG"
        )
    # Phones append depth and gain maps to a JPEG as further frames; its first frame is the photo.
    if image.format in ("PNG", "WEBP") and getattr(image, "n_frames", 1) > 1:
        raise UnsupportedMedia(
            f"an animated {image.format} is not supported; save one frame as a still image: "
            "mogrify -format png 'FILE[0]'"
        )


def _upright(image: Image.Image) -> Image.Image:
    image.load()
    try:
        # In place: a copy would hold the image twice where there is nothing to turn.
        ImageOps.exif_transpose(image, in_place=True)
        return image
    except _PARSER_ERRORS:
        # Many cameras write broken EXIF; the pixels are intact, so keep the stored orientation.
        return image


def _halved(image: Image.Image) -> Pixels:
    """Decode an image at half its width and height, odd ones rounded down.

    A JPEG is read through the half-sized transform of its blocks, so that the whole is never in memory; of
    other formats each pixel is the mean of two by two, converted band by band.
    """
    whole, (width, height) = image.size, (max(1, image.width // 2), max(1, image.height // 2))
    with _ONE_AT_A_TIME:
        image.draft(None, (width, height))
        factor = 2 if image.size == whole else 1
        image.load()
        half = Image.new("RGB", (width, height))
        for top in range(0, height, _BAND):
            rows = min(_BAND, height - top) * factor
            band = image.crop((0, top * factor, width * factor, top * factor + rows))
            half.paste(Image.fromarray(_band_to_rgb(band)).reduce(factor), (0, top))
    # The EXIF data say how the photograph was held.
    half.info = image.info
    return _to_rgb(_upright(half))


def _to_rgb(image: Image.Image) -> Pixels:
    # Band by band: Pillow copies what it converts and gives, and the whole would be in memory four times.
    pixels = np.empty((image.height, image.width, 3), dtype=np.uint8)
    for top in range(0, image.height, _BAND):
        rows = min(top + _BAND, image.height)
        pixels[top:rows] = _band_to_rgb(image.crop((0, top, image.width, rows)))
    return pixels


def _band_to_rgb(band: Image.Image) -> Pixels:
    if band.mode.startswith("I") or band.mode == "F":
        # Pillow's own conversion clips 16-bit levels to white instead of scaling them.
        levels = np.clip(np.asarray(band).astype(np.float64) / 257.0, 0, 255)
        return np.repeat(np.rint(levels).astype(np.uint8)[:, :, None], 3, axis=2)
    if band.has_transparency_data:
        layer = band.convert("RGBA")
        band = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
    return np.asarray(band.convert("RGB"), dtype=np.uint8)


def _unidentified(data: bytes) -> ImageUndecodable | UnsupportedMedia:
    # Distinguish another format from a broken image.
    if is_other_media(data):
        return UnsupportedMedia(
            f"the file of {len(data)} bytes has another format, whatever its name says; convert it to a "
            "still PNG, JPEG or WebP image, such as by mogrify -format jpg 'FILE[0]'"
        )
    return ImageUndecodable(f"the {len(data)} bytes are not an image; send a PNG, JPEG or WebP file")
