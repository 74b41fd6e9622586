"""Images inside the report: small, embedded once each, and marked if they are synthetic."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from PIL import Image

from counterpose_core.errors import CounterposeError
from counterpose_core.image_recipes import shown_image
from counterpose_core.images.codecs import Pixels
from counterpose_gateway.images.png import DIGITAL_SOURCE_TYPE, synthetic_xmp

LONGEST_SIDE = 256
"""Pixels; 100 pairs of photographs of this size keep a report under 5 MB."""

QUALITY = 80
"""WebP quality of photographs; smaller images, as the miniature suite's, are stored without loss."""

_CRISP_BELOW = 128


@dataclass(frozen=True)
class Inline:
    """An image as a data URI; places show it by ``name``. ``crisp`` asks for hard pixels when enlarged."""

    name: str
    uri: str
    width: int
    height: int
    crisp: bool


class Album:
    """Reads images by reference, each once, and makes those of recipes; a missing or damaged image is None.

    A page shows an image any number of times, and embeds each of `images` once.
    """

    def __init__(self, image: Callable[[str], bytes], *, longest: int = LONGEST_SIDE) -> None:
        self._image = image
        self._longest = longest
        self._seen: dict[tuple[str, str], Inline | None] = {}

    @property
    def images(self) -> list[Inline]:
        """The images that were found, in the order they were first asked for."""
        return [image for image in self._seen.values() if image is not None]

    def original(self, ref: str) -> Inline | None:
        """An image that the user provided."""
        return self._inline(ref, "", "")

    def generated(
        self, ref: str, *, run: str, item: str, source_type: str = DIGITAL_SOURCE_TYPE
    ) -> Inline | None:
        """An image that Counterpose made, marked as synthetic in its metadata, with its artifact's digest."""
        return self._inline(ref, item, synthetic_xmp(source_type, run=run, item=item, artifact=ref))

    def _inline(self, ref: str, item: str, xmp: str) -> Inline | None:
        # An original is shown with each of its edits, so it is read and encoded once.
        if (ref, item) not in self._seen:
            self._seen[ref, item] = self._read(ref, xmp)
        return self._seen[ref, item]

    def _read(self, ref: str, xmp: str) -> Inline | None:
        try:
            pixels = shrink(shown_image(ref, self._image), self._longest)
        # A report with a gap is better than no report.
        except CounterposeError:
            return None
        height, width, _ = pixels.shape
        crisp = max(height, width) < _CRISP_BELOW
        data = base64.b64encode(encode_webp(pixels, xmp, lossless=crisp)).decode("ascii")
        return Inline(f"im{len(self._seen)}", f"data:image/webp;base64,{data}", width, height, crisp)


def encode_webp(pixels: Pixels, xmp: str, *, lossless: bool) -> bytes:
    """Encode uint8 (H, W, 3) as WebP with an XMP packet; empty for none."""
    buffer = io.BytesIO()
    metadata = {"xmp": xmp.encode()} if xmp else {}
    Image.fromarray(pixels).save(
        buffer, format="WEBP", lossless=lossless, quality=QUALITY, method=4, **metadata
    )
    return buffer.getvalue()


def shrink(pixels: Pixels, longest: int = LONGEST_SIDE) -> Pixels:
    """Scale uint8 (H, W, 3) down until its longest side fits; smaller images stay as they are."""
    height, width = pixels.shape[:2]
    if max(height, width) <= longest:
        return pixels
    scale = longest / max(height, width)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.LANCZOS), dtype=np.uint8)
