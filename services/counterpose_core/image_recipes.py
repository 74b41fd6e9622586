"""Making an image of its recipe: decode, reduce to the working size, carry out the operation."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from PIL import Image

from counterpose_core.contract.recipes import IDENTITY, PLACEBO, Recipe, working_shape
from counterpose_core.errors import InvalidRequest
from counterpose_core.images.codecs import decode_image
from counterpose_core.images.masks import INSIDE, is_soft
from counterpose_core.transforms.application import apply, generator_of
from counterpose_core.transforms.arrays import Mask, Matte, Pixels
from counterpose_core.transforms.backgrounds import emptied
from counterpose_core.transforms.table import operation

Read = Callable[[str], bytes]
"""Returns the stored bytes of a digest; raises ArtifactMissing if there are none."""

SMALL_SIDE = 1024
_KEPT_SMALL, _KEPT_LARGE = 16, 2
"""Images at their working size that are kept, in 50 or 100 MB: a photograph's recipes come together."""


def shown_image(ref: str, read: Read) -> Pixels:
    """Return the pixels of a reference: a stored image as it is, or what its recipe makes of it.

    Args:
        ref: a digest, or a recipe as `Recipe` writes it.
        read: reads stored bytes.

    Returns:
        uint8 (H, W, 3).

    Raises:
        InvalidRequest: the recipe names no operation or level, or lacks what the operation needs.
        ImageUndecodable, ImageTooLarge, UnsupportedMedia: as `decode_image`.
    """
    return made(Recipe.parsed(ref), read) if "/" in ref else decode_image(read(ref))


def digest_of_pixels(pixels: Pixels) -> str:
    """Return the SHA-256 of an image's shape and pixels, by which one that is made again is compared.

    With its name in front: nothing is stored under it, and a ledger must not take it for a stored image.
    """
    height, width = pixels.shape[:2]
    return f"sha256:{hashlib.sha256(f'{height}x{width}:'.encode() + pixels.tobytes()).hexdigest()}"


class MadeImages:
    """Makes the images of references, and remembers the digest of what each recipe made last.

    made = MadeImages()
    pixels = made(ref, store.get)
    made.digests.get(ref)  # of a stored image: None
    """

    def __init__(self) -> None:
        self.digests: dict[str, str] = {}

    def __call__(self, ref: str, read: Read) -> Pixels:
        """Return the pixels of a reference; raises as `shown_image`."""
        pixels = shown_image(ref, read)
        if "/" in ref:
            self.digests[ref] = digest_of_pixels(pixels)
        return pixels


def made(recipe: Recipe, read: Read) -> Pixels:
    """Return the pixels that a recipe makes; raises as `shown_image`."""
    small = recipe.size is not None and recipe.size <= SMALL_SIDE
    pixels = (_small_image if small else _large_image)(recipe.source, recipe.size, read)
    return changed(recipe, pixels, read)


def _working_image(source: str, size: int | None, read: Read) -> Pixels:
    pixels = working(decode_image(read(source)), size)
    # Shared by all operations on it.
    pixels.setflags(write=False)
    return pixels


_small_image = lru_cache(maxsize=_KEPT_SMALL)(_working_image)
_large_image = lru_cache(maxsize=_KEPT_LARGE)(_working_image)


def working(pixels: Pixels, size: int | None) -> Pixels:
    """Return the image reduced to a longest side of ``size`` pixels; one that is smaller stays as it is."""
    height, width = working_shape(pixels.shape[:2], size)
    if (height, width) == pixels.shape[:2]:
        return pixels
    return np.array(Image.fromarray(pixels).resize((width, height), Image.Resampling.LANCZOS))


def changed(recipe: Recipe, pixels: Pixels, read: Read) -> Pixels:
    """Carry out a recipe's operation on an image that has its working size; raises as `shown_image`."""
    if recipe.operation == IDENTITY:
        return pixels
    generator = generator_of(recipe.source, recipe.operation, recipe.level, recipe.seed)
    if recipe.operation == PLACEBO:
        steps = generator.integers(-1, 2, pixels.shape, dtype=np.int16)
        return np.array((pixels + steps).clip(0, 255), dtype=np.uint8)
    return apply(
        pixels,
        operation(recipe.operation),
        recipe.level,
        generator,
        mask=None if recipe.mask is None else _mask(read(recipe.mask), pixels.shape[:2]),
        other=None
        if recipe.other is None
        else _background(recipe.other, recipe.other_mask, recipe.size, read),
    )


@lru_cache(maxsize=_KEPT_LARGE)
def _background(other: str, mask: str | None, size: int | None, read: Read) -> Pixels:
    """Return another photograph at the working size, without its object: kept while levels come together."""
    pixels = working(decode_image(read(other)), size)
    return pixels if mask is None else emptied(pixels, _mask(read(mask), pixels.shape[:2]))


def _mask(data: bytes, shape: tuple[int, int]) -> Mask | Matte:
    """Read a mask in the proportions of its photograph: a matte, reduced as that is, or where it is light."""
    pixels = decode_image(data)
    height, width = pixels.shape[:2]
    # A pixel of the reduced photograph may round otherwise; more than that is the mask of another image.
    if abs(width * shape[0] - height * shape[1]) > max(width, height, *shape):
        raise InvalidRequest(
            f"the mask has {width} x {height} pixels, which is not the shape of its photograph; give the "
            "photograph's own mask"
        )
    levels = Image.fromarray(pixels).convert("L")
    if is_soft(np.asarray(levels)):
        return np.array(levels.resize(shape[::-1], Image.Resampling.LANCZOS))
    return np.array(np.asarray(levels.resize(shape[::-1], Image.Resampling.NEAREST)) >= INSIDE)
