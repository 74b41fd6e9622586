"""How an image is made of a stored one: a recipe that travels in the place of its bytes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from counterpose_core.errors import InvalidRequest
from counterpose_core.text_form import TextForm

IDENTITY = "identity"
"""The image at its working size, with nothing changed: the control of every operation."""

PLACEBO = "placebo"
"""Every value moved by at most one of 255 steps: a change that nobody sees."""

WORKING_SIZE = 512
"""Pixels of the longest side of an image before an operation, where nothing else is asked for."""

LARGEST_SIZE = 4096
NATIVE = "native"
_NOTHING = "-"
_DIGEST = "[0-9a-f]{64}"
_STEPS = rf"/[a-z][a-z-]{{0,39}}/[0-9]/[0-9]{{1,19}}/([0-9]{{1,4}}|{NATIVE})"
_PATTERN = rf"{_DIGEST}({_STEPS}(/({_DIGEST}|{_NOTHING})){{2}}(/{_DIGEST})?)?"
_FORM = re.compile(_PATTERN)

ImageRef = Annotated[
    str,
    Field(pattern=rf"^{_PATTERN}$"),
    TextForm("must be a digest of a stored image, or a recipe that begins with one"),
]
"""A stored image by its SHA-256, or a recipe of one, as `Recipe` writes it."""


PixelDigest = Annotated[
    str,
    Field(pattern=r"^sha256:[0-9a-f]{64}$"),
    TextForm("must be sha256: and the digest of an image's pixels"),
]
"""The digest of the pixels that a recipe made, as `image_recipes.digest_of_pixels` writes it."""


@dataclass(frozen=True)
class Recipe:
    """An operation on a stored image, by which its pixels can be made again.

    >>> str(Recipe("0" * 64, "rotation", level=3, size=None))
    '00...0/rotation/3/0/native/-/-'

    ``source``, ``mask`` and ``other`` are digests of stored images: the photograph, where its object is, and
    the photograph that becomes the background, without its own object if ``other_mask`` says where that is.
    ``size`` is the longest side before the operation, in pixels;
    an image is never enlarged to it, and None leaves it as it is.
    """

    source: str
    operation: str = IDENTITY
    level: int = 0
    seed: int = 0
    size: int | None = WORKING_SIZE
    mask: str | None = None
    other: str | None = None
    other_mask: str | None = None

    def __str__(self) -> str:
        size = NATIVE if self.size is None else self.size
        parts = (
            self.source,
            self.operation,
            self.level,
            self.seed,
            size,
            self.mask or _NOTHING,
            self.other or _NOTHING,
            *(() if self.other_mask is None else (self.other_mask,)),
        )
        return "/".join(map(str, parts))

    @classmethod
    def parsed(cls, text: str) -> Recipe:
        """Read what `__str__` wrote.

        Raises:
            InvalidRequest: the text is no recipe, or its size is 0 or above `LARGEST_SIZE`.
        """
        if _FORM.fullmatch(text) is None or "/" not in text:
            raise InvalidRequest(f"{text!r} is no recipe of an image")
        source, operation, level, seed, size, mask, other, *more = text.split("/")
        if size != NATIVE and not 1 <= int(size) <= LARGEST_SIZE:
            raise InvalidRequest(f"the working size of {text!r} is not in [1, {LARGEST_SIZE}]")
        return cls(
            source,
            operation,
            int(level),
            int(seed),
            None if size == NATIVE else int(size),
            None if mask == _NOTHING else mask,
            None if other == _NOTHING else other,
            next(iter(more), None),
        )


def working_shape(shape: tuple[int, int], size: int | None) -> tuple[int, int]:
    """Return height and width of an image reduced to a longest side of ``size`` pixels; never enlarged."""
    longest = max(shape)
    if size is None or longest <= size:
        return shape
    height, width = (max(1, round(side * (size / longest))) for side in shape)
    return height, width


def is_recipe(ref: str) -> bool:
    """Return whether a text is a recipe; a text with a slash need not be one."""
    return "/" in ref and _FORM.fullmatch(ref) is not None
