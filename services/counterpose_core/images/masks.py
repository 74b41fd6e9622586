"""Masks of objects: read from a file, an alpha channel or polygons; outlines, or mattes with soft edges."""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PIL import ExifTags, Image, ImageDraw, ImageOps, UnidentifiedImageError

from counterpose_core.errors import InvalidRequest
from counterpose_core.images.codecs import FORMATS, LARGEST_PHOTOGRAPH, Pixels, decode_image, stated_sides
from counterpose_core.images.file_structure import SIGNATURE
from counterpose_core.types import Side

Matte = npt.NDArray[np.uint8]
"""Shape (H, W): the object's share of each pixel, 0 to 255; with nothing between these, only its outline."""

INSIDE = 128
"""The least value of a mask's image, or of an alpha channel, that is inside."""
BLACK, WHITE = 0, 255
NEARLY = 8
"""Levels by which a matte may miss black and white: those that networks predict hardly reach them."""
MOST_WORK = 8_000_000
"""Crossings of rows by all edges of an outline: half a second of a processor."""
_BAND = 256
_QUARTERS = (5, 6, 7, 8)
"""The EXIF orientations that swap width and height."""


def alpha_mask(data: bytes) -> Matte | None:
    """Return how opaque the image of a file is; None if everything is inside, or nothing.

    Args:
        data: a file that `decode_image` has read.
    """
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            if not image.has_transparency_data:
                return None
            image.load()
            turned = ImageOps.exif_transpose(image) if _orientation(image) else image
            alpha = np.empty((turned.height, turned.width), dtype=np.uint8)
            # Band by band: the whole in four channels would be in memory a second time.
            for top in range(0, turned.height, _BAND):
                band = turned.crop((0, top, turned.width, min(top + _BAND, turned.height)))
                alpha[top : top + _BAND] = np.asarray(band.convert("RGBA").getchannel("A"))
    except UnidentifiedImageError:
        # Raw pixels have no alpha channel.
        return None
    inside = alpha >= INSIDE
    return alpha if inside.any() and not inside.all() else None


def file_mask(data: bytes, image: bytes) -> Matte:
    """Return the mask that a file shows: how light it is or, if it is a cut-out, how opaque.

    Only a PNG in greys from black to white has a soft edge: colours and other greys number objects, and other
    formats blur. Of these, the outline is taken.

    Args:
        data: the file.
        image: the file of the image that it is a mask of.

    Raises:
        InvalidRequest: it has another size than the image, or is empty or full.
        ImageUndecodable, ImageTooLarge, UnsupportedMedia: as `decode_image`.
    """
    stated, own = stated_sides(data), stated_sides(image)
    if all(stated) and all(own) and sorted(stated) != sorted(own):
        # Before a mask of 64 megapixels is decoded for an image that counts as a small one.
        raise _another_size(stated[1], stated[0], own[1], own[0])
    pixels = decode_image(data, max_pixels=LARGEST_PHOTOGRAPH)
    levels = np.array(Image.fromarray(pixels).convert("L"))
    cut = alpha_mask(data)
    # Both by their files: a large one is halved while it is decoded.
    size = _size(data)
    _require_size(*size, image)
    is_whole = size == (pixels.shape[1], pixels.shape[0])
    is_grey = is_whole and data.startswith(SIGNATURE) and bool((pixels == pixels[..., :1]).all())
    if cut is not None:
        matte = cut
    elif is_grey and levels.min() <= BLACK + NEARLY and levels.max() >= WHITE - NEARLY:
        matte = levels
    else:
        matte = _outline(levels >= INSIDE)
    _require_both(matte, f"; its lightest value is {levels.max()}" if cut is None else "")
    return matte


def outline_mask(polygons: Sequence[Sequence[float]], size: tuple[int, int], image: bytes) -> Matte:
    """Return what lies in any of the polygons.

    Args:
        polygons: the corners of each, x, y, x, y ... in pixels.
        size: width and height of the image that they were drawn on.
        image: the file of the image that they are to be of.

    Raises:
        InvalidRequest: they were drawn on an image of another size, leave it, or hold nothing or all of it.
    """
    _require_size(*size, image)
    canvas = Image.new("L", size)
    draw = ImageDraw.Draw(canvas)
    work = 0.0
    for polygon in polygons:
        corners = list(zip(polygon[::2], polygon[1::2], strict=False))
        work += _work(corners)
        if work > MOST_WORK:
            raise InvalidRequest(
                f"the polygons cross the image's rows more than {MOST_WORK:,} times together; give fewer, or "
                "a mask's file"
            )
        if any(not (-1 <= x <= size[0] + 1 and -1 <= y <= size[1] + 1) for x, y in corners):
            raise InvalidRequest(
                "the outline leaves the image; give the outline of this image, in its pixels"
            )
        draw.polygon(corners, fill=WHITE)
    matte = np.array(canvas)
    _require_both(matte, "")
    return matte


def _work(corners: Sequence[tuple[float, float]]) -> float:
    """Return how often the edges of a polygon cross a row; 4,096 pixels that it may fill count as one."""
    across, down = [x for x, _ in corners], [y for _, y in corners]
    crossed = sum(abs(one - next_) for one, next_ in itertools.pairwise((*down, down[0])))
    return crossed + (max(across) - min(across)) * (max(down) - min(down)) / 4096


def is_soft(matte: Matte) -> bool:
    """Return whether a mask has an edge of its own, and not an outline only."""
    return bool(((matte > BLACK) & (matte < WHITE)).any())


def mask_pixels(matte: Matte, pixels: Pixels) -> Pixels:
    """Return a mask as it is stored: white where the object is, as large as the stored image."""
    height, width = pixels.shape[:2]
    levels = Image.fromarray(matte)
    if levels.size != (width, height):
        # Of an outline no soft edge may come; a matte is halved as photographs are.
        kind = Image.Resampling.BOX if is_soft(matte) else Image.Resampling.NEAREST
        levels = levels.resize((width, height), kind)
    return np.repeat(np.asarray(levels)[:, :, None], 3, axis=2)


def editable(data: bytes, edits: Side, size: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Return where (H, W) an edit may change an image.

    Args:
        data: the stored mask, light inside.
        edits: the side of it that may change.
        size: height and width of the image.

    Raises:
        InvalidRequest: the mask has another size, or nothing is on that side of it.
        ImageUndecodable: it is no image.
    """
    inside = decode_image(data)[:, :, 0] >= INSIDE
    if inside.shape != size:
        raise _another_size(inside.shape[1], inside.shape[0], size[1], size[0])
    if edits == "outside":
        inside = ~inside
    if not inside.any():
        raise InvalidRequest(f"the region is empty: nothing is {edits} the mask; give another mask or side")
    return inside


def middle(inside: npt.NDArray[np.bool_], size: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Return the middle square of a region (H, W) in another size (h, w), as editors crop; the same stays."""
    if inside.shape == size:
        return inside
    fitted = ImageOps.fit(Image.fromarray(_outline(inside)), size[::-1], Image.Resampling.NEAREST)
    return np.asarray(fitted) >= INSIDE


def _outline(inside: npt.NDArray[np.bool_]) -> Matte:
    return np.where(inside, WHITE, BLACK).astype(np.uint8)


def _require_size(width: int, height: int, data: bytes) -> None:
    own = _size(data)
    if (width, height) != own:
        raise _another_size(width, height, *own)


def _another_size(width: int, height: int, own_width: int, own_height: int) -> InvalidRequest:
    return InvalidRequest(
        f"the mask has {width} x {height} pixels, but its image {own_width} x {own_height}; "
        "give the image's own mask"
    )


def _require_both(matte: Matte, more: str) -> None:
    inside = matte >= INSIDE
    if not inside.any():
        raise InvalidRequest(f"the mask is empty: no object is in it{more}; make the object light (255)")
    if inside.all():
        raise InvalidRequest(
            "the mask is full: no background is left; make the object light (255), the rest dark"
        )


def _size(data: bytes) -> tuple[int, int]:
    """Return width and height of a file's image as it is shown."""
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            width, height = image.size
            return (height, width) if _orientation(image) in _QUARTERS else (width, height)
    except UnidentifiedImageError:
        height, width = decode_image(data).shape[:2]
        return width, height


def _orientation(image: Image.Image) -> int:
    """Return the EXIF orientation if the image is shown in another one than it is stored in, else 0."""
    try:
        found = image.getexif().get(ExifTags.Base.Orientation, 1)
    # Many cameras write broken EXIF; `decode_image` leaves such an image as it is stored.
    except (OSError, SyntaxError, ValueError, TypeError, KeyError, IndexError, EOFError, OverflowError):
        return 0
    return found if found in range(2, 9) else 0
