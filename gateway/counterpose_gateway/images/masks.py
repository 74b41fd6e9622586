"""Intake of masks: what comes with an image is checked against it and packed for the store."""

from __future__ import annotations

from counterpose_core.contract.datasets import Outline
from counterpose_core.errors import ImageUndecodable, RequestError
from counterpose_core.images.codecs import Pixels
from counterpose_core.images.masks import alpha_mask, file_mask, mask_pixels, outline_mask
from counterpose_core.images.packing import PackedImage, pack
from counterpose_gateway.images.folder import RawSource


def packed_mask(source: RawSource, content: bytes, pixels: Pixels) -> PackedImage | None:
    """Return the mask of an image, or None if it has none: what was given with it, else its alpha channel.

    Args:
        source: what was given.
        content: the file of the image.
        pixels: the image as it is stored.

    Raises:
        RequestError: the mask that was given is refused; the pointer names it.
    """
    try:
        if source.mask is None:
            matte = alpha_mask(content)
        elif isinstance(source.mask, Outline):
            outline = source.mask
            matte = outline_mask(outline.polygons, (outline.width, outline.height), content)
        elif source.mask:
            matte = file_mask(source.mask, content)
        else:
            raise ImageUndecodable("the mask is unreadable or not base64; send the file's bytes in base64")
    except RequestError as error:
        field = "outline" if isinstance(source.mask, Outline) else "mask_base64"
        raise type(error)(f"{source.filename!r}: {error.detail}", pointer=f"/{field}") from error
    return None if matte is None else pack(mask_pixels(matte, pixels))
