"""Images inside the report: small, inline, and marked if they are synthetic."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from PIL import Image

from faultline_core.errors import FaultlineError
from faultline_core.images.codecs import Pixels, decode_image, encode_png
from faultline_gateway.images.png import DIGITAL_SOURCE_TYPE, synthetic_marks

LONGEST_SIDE = 256
"""Pixels; 60 pairs of this size keep a report under 15 MB."""

_CRISP_BELOW = 128


@dataclass(frozen=True)
class Inline:
    """An image as a data URI; ``crisp`` asks for hard pixels when it is shown enlarged."""

    uri: str
    crisp: bool


class Album:
    """Reads images by reference, each once; a missing or damaged image is None."""

    def __init__(self, image: Callable[[str], bytes], *, longest: int = LONGEST_SIDE) -> None:
        self._image = image
        self._longest = longest
        self._seen: dict[tuple[str, str], Inline | None] = {}

    def original(self, ref: str) -> Inline | None:
        """An image that the user provided."""
        return self._inline(ref, {})

    def generated(
        self, ref: str, *, run: str, item: str, source_type: str = DIGITAL_SOURCE_TYPE
    ) -> Inline | None:
        """An image that Faultline made, marked as synthetic in its metadata."""
        marks = synthetic_marks(source_type, **{"faultline-run": run, "faultline-item": item})
        return self._inline(ref, marks)

    def _inline(self, ref: str, marks: Mapping[str, str]) -> Inline | None:
        key = (ref, marks.get("faultline-item", ""))
        # An original is shown with each of its edits, so it is read and encoded once.
        if key not in self._seen:
            self._seen[key] = self._read(ref, marks)
        return self._seen[key]

    def _read(self, ref: str, marks: Mapping[str, str]) -> Inline | None:
        try:
            pixels = shrink(decode_image(self._image(ref)), self._longest)
        # A report with a gap is better than no report.
        except FaultlineError:
            return None
        data = base64.b64encode(encode_png(pixels, text=marks)).decode("ascii")
        return Inline(f"data:image/png;base64,{data}", crisp=max(pixels.shape[:2]) < _CRISP_BELOW)


def shrink(pixels: Pixels, longest: int = LONGEST_SIDE) -> Pixels:
    """Scale uint8 (H, W, 3) down until its longest side fits; smaller images stay as they are."""
    height, width = pixels.shape[:2]
    if max(height, width) <= longest:
        return pixels
    scale = longest / max(height, width)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.LANCZOS), dtype=np.uint8)
