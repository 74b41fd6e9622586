"""Feature vectors of items in a compact form that is the same on every machine."""

import base64
import binascii
import struct
from collections.abc import Sequence
from typing import Self

from pydantic import Field, model_validator

from counterpose_core.contract.base import ResponseBody

_BYTES = 2


class FeatureVector(ResponseBody):
    """A unit vector in half precision; cosines are accurate to about 0.001."""

    width: int = Field(ge=1)
    """Number of components."""
    float16: str
    """Base64 of the components as little-endian IEEE half-precision floats."""

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Self:
        """Round ``numbers`` to half precision.

        Raises:
            ValueError: there is no number, or one lies outside ± 65,504.
        """
        try:
            packed = struct.pack(f"<{len(numbers)}e", *numbers)
        except (OverflowError, struct.error) as error:
            raise ValueError(f"cannot be stored in half precision: {error}") from error
        return cls(width=len(numbers), float16=base64.b64encode(packed).decode())

    def numbers(self) -> list[float]:
        """Return the vector's numbers."""
        return list(struct.unpack(f"<{self.width}e", base64.b64decode(self.float16)))

    @model_validator(mode="after")
    def _has_its_width(self) -> Self:
        try:
            found = len(base64.b64decode(self.float16, validate=True))
        except binascii.Error as error:
            raise ValueError("float16 must be base64") from error
        if found != _BYTES * self.width:
            raise ValueError(f"{found} bytes are not {self.width} half-precision floats")
        return self


class WordFeatures(ResponseBody):
    """CLIP's text features of the words that an edit changed."""

    removed: FeatureVector | None = None
    """Features of the removed words, or null if none were removed."""
    added: FeatureVector | None = None
    """Features of the added words, or null if none were added."""
