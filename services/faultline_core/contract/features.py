"""Feature vectors as items record them: compact, and the same on every machine."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Sequence

from pydantic import Field, model_validator

from faultline_core.contract.base import ResponseBody

_BYTES = 2


class FeatureVector(ResponseBody):
    """A unit vector of ``width`` numbers without unit: base64 of little-endian IEEE half-precision floats.

    Half precision keeps a cosine to about 0.001.
    """

    width: int = Field(ge=1)
    float16: str

    @classmethod
    def of(cls, numbers: Sequence[float]) -> FeatureVector:
        """Round ``numbers`` to half precision.

        Raises:
            ValueError: there is none, or one lies beyond ± 65,504.
        """
        try:
            packed = struct.pack(f"<{len(numbers)}e", *numbers)
        except (OverflowError, struct.error) as error:
            raise ValueError(f"no half-precision floats: {error}") from error
        return cls(width=len(numbers), float16=base64.b64encode(packed).decode())

    def numbers(self) -> list[float]:
        """Return the vector's numbers."""
        return list(struct.unpack(f"<{self.width}e", base64.b64decode(self.float16)))

    @model_validator(mode="after")
    def _has_its_width(self) -> FeatureVector:
        try:
            found = len(base64.b64decode(self.float16, validate=True))
        except binascii.Error as error:
            raise ValueError("features are base64") from error
        if found != _BYTES * self.width:
            raise ValueError(f"{found} bytes are not {self.width} half-precision floats")
        return self


class WordFeatures(ResponseBody):
    """CLIP's features of the words that an edit removed and added, None where there are none."""

    removed: FeatureVector | None = None
    added: FeatureVector | None = None
