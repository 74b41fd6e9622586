"""Pictures inside the report: small, inline, and marked where they are synthetic."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from PIL import Image

from faultline_core.errors import FaultlineError
from faultline_core.images import Pixels, decode_image, encode_png
from faultline_gateway.marks import DIGITAL_SOURCE_TYPE, synthetic_marks

LONGEST_SIDE = 256
"""Pixels; 60 pairs of this size keep a report under 15 MB."""

_CRISP_BELOW = 128


@dataclass(frozen=True)
class Inline:
    """A picture as a data URI; ``crisp`` asks for hard pixels when it is shown enlarged."""

    uri: str
    crisp: bool


class Album:
    """Reads pictures by reference, each once; one that is gone or broken is simply not there."""

    def __init__(self, picture: Callable[[str], bytes], *, longest: int = LONGEST_SIDE) -> None:
        self._picture = picture
        self._longest = longest
        self._seen: dict[tuple[str, str], Inline | None] = {}

    def original(self, ref: str) -> Inline | None:
        """A picture the user brought."""
        return self._inline(ref, {})

    def generated(
        self, ref: str, *, run: str, item: str, source_type: str = DIGITAL_SOURCE_TYPE
    ) -> Inline | None:
        """A picture we made, saying so in its metadata."""
        marks = synthetic_marks(source_type, **{"faultline-run": run, "faultline-item": item})
        return self._inline(ref, marks)

    def _inline(self, ref: str, marks: Mapping[str, str]) -> Inline | None:
        key = (ref, marks.get("faultline-item", ""))
        # An original stands beside each of its edits; it is read and encoded once.
        if key not in self._seen:
            self._seen[key] = self._read(ref, marks)
        return self._seen[key]

    def _read(self, ref: str, marks: Mapping[str, str]) -> Inline | None:
        try:
            pixels = shrink(decode_image(self._picture(ref)), self._longest)
        # A gap in the report tells more than no report.
        except FaultlineError:
            return None
        data = base64.b64encode(encode_png(pixels, text=marks)).decode("ascii")
        return Inline(f"data:image/png;base64,{data}", crisp=max(pixels.shape[:2]) < _CRISP_BELOW)


def shrink(pixels: Pixels, longest: int = LONGEST_SIDE) -> Pixels:
    """Scale uint8 (H, W, 3) down until its longest side fits; smaller pictures stay as they are."""
    height, width = pixels.shape[:2]
    if max(height, width) <= longest:
        return pixels
    scale = longest / max(height, width)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.LANCZOS), dtype=np.uint8)
