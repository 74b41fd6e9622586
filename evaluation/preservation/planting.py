"""Faults planted in a true counterfactual, and the noise that a server adds to every image.

Both stretches are declared here: limits are set on `CALIBRATION` and tested on `TEST`, which shares no kind
with it and no size. What nobody could see (a square of snow on snow) is drawn again elsewhere or not planted.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy
from PIL import Image

from counterpose_core.preservation.arrays import lab
from counterpose_core.transforms.arrays import Mask, Pixels

VISIBLE = 6.0
"""Mean ΔE*ab by pixel from which on a planted fault counts as there."""
TRIES = 20
LEAST_ROOM = 0.6
"""Share of a planted leak that must lie outside the region."""

Border = Literal["nearest", "mirror", "reflect", "grid-wrap", "constant"]
Generator = np.random.Generator
Plant = Callable[[Pixels, Mask, Generator], Pixels | None]
"""Makes a faulty image of an edited one, given the region asked for; None where nobody would see it."""
Server = Callable[[Pixels, Generator], Pixels]
"""Answers with an image as it stores and decodes it."""
_Floats = npt.NDArray[np.floating[Any]]


def warped(image: Pixels, scale: float, shift: tuple[float, float], border: Border) -> Pixels:
    """Return an image whose middle is moved, by shares of its sides, and scaled about it."""
    places = [
        ((np.arange(side) + 0.5) / side - 0.5 - by) / scale * side + side / 2 - 0.5
        for side, by in zip(image.shape[:2], shift[::-1], strict=True)
    ]
    grid = np.meshgrid(*places, indexing="ij")
    planes = [
        scipy.ndimage.map_coordinates(plane, grid, np.float32, 3, border)
        for plane in np.moveaxis(image, -1, 0)
    ]
    return _levels(np.stack(planes, axis=-1))


def shift(
    image: Pixels, region: Mask, generator: Generator, *, size: float, border: Border, axis: bool
) -> Pixels:
    """Move the image by a share of its side: along a side, or in any direction."""
    turn = generator.integers(4) * np.pi / 2 if axis else generator.uniform(0, 2 * np.pi)
    return warped(image, 1.0, (size * np.cos(turn), size * np.sin(turn)), border)


def zoom(
    image: Pixels, region: Mask, generator: Generator, *, scale: float, border: Border, centred: bool
) -> Pixels:
    """Enlarge the image, as a crop does, or shrink it; about its middle or a place drawn in what is seen."""
    free = abs(scale - 1.0) / 2
    across, down = (0.0, 0.0) if centred else generator.uniform(-free, free, 2)
    return warped(image, scale, (across, down), border)


def reshape(image: Pixels, region: Mask, generator: Generator, *, wider: float) -> Pixels:
    """Return the image in a size of another form."""
    height, width = image.shape[:2]
    return np.asarray(Image.fromarray(image).resize((round(width * wider), height), Image.Resampling.BICUBIC))


def channel(
    image: Pixels, region: Mask, generator: Generator, *, gain: float, offset: float
) -> Pixels | None:
    """Change gain and offset of one channel, drawn."""
    changed = image.astype(np.float32)
    drawn = int(generator.integers(3))
    changed[..., drawn] = gain * changed[..., drawn] + offset
    return _seen(image, _levels(changed), ~region)


def mixed(image: Pixels, region: Mask, generator: Generator, *, matrix: _Floats) -> Pixels | None:
    """Mix the channels of all pixels."""
    return _seen(image, _levels(image.astype(np.float32) @ matrix.T), ~region)


def gamma(image: Pixels, region: Mask, generator: Generator, *, power: float) -> Pixels | None:
    """Bend the levels of all pixels."""
    return _seen(image, _levels(255 * (image / np.float32(255)) ** power), ~region)


def hue_matrix(degrees: float) -> _Floats:
    """Return the turn of red, green, blue about grey."""
    cosine, sine = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    grey = np.full((3, 3), 1 / 3)
    across = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]]) / np.sqrt(3)
    return np.asarray(grey + cosine * (np.eye(3) - grey) + sine * across)


def saturation_matrix(share: float) -> _Floats:
    """Return the mixing that leaves this share of all colour."""
    return np.asarray(share * np.eye(3) + (1 - share) * np.tile([0.299, 0.587, 0.114], (3, 1)))


def leak(
    image: Pixels, region: Mask, generator: Generator, *, side: float, disc: bool, ink: Callable[..., _Floats]
) -> Pixels | None:
    """Change a square or disc outside the region, ``side`` of the image's side long, where it is seen."""
    height, width = image.shape[:2]
    length = max(3, round(side * max(height, width)))
    outside = scipy.ndimage.uniform_filter((~region).astype(np.float32), length, mode="constant")
    rows, columns = np.nonzero(outside >= LEAST_ROOM)
    down, across = np.mgrid[:height, :width]
    for _ in range(TRIES if rows.size else 0):
        at = int(generator.integers(rows.size))
        away = np.abs([down - rows[at], across - columns[at]])
        place = (np.hypot(*away) if disc else away.max(axis=0)) <= length / 2
        place &= ~region
        changed = np.where(place[..., None], _levels(ink(image, generator, length)), image)
        if _seen(image, changed, place) is not None:
            return changed
    return None


def flat(image: Pixels, generator: Generator, length: int) -> _Floats:
    """Ink of one colour."""
    return np.broadcast_to(generator.integers(0, 256, 3).astype(np.float32), image.shape)


def blur(image: Pixels, generator: Generator, length: int) -> _Floats:
    """The image itself, blurred."""
    return np.asarray(scipy.ndimage.gaussian_filter(image.astype(np.float32), (length / 4, length / 4, 0)))


def turned(image: Pixels, generator: Generator, length: int) -> _Floats:
    """The image itself with its hues turned by a quarter."""
    return np.asarray(image.astype(np.float32) @ hue_matrix(90.0).T)


def grain(image: Pixels, generator: Generator, length: int) -> _Floats:
    """The image itself under coarse grain."""
    pattern = generator.normal(0, 45, image.shape[:2])
    return np.asarray(image + scipy.ndimage.gaussian_filter(pattern, 0.6)[..., None] * 2)


def elsewhere(image: Pixels, generator: Generator, length: int) -> _Floats:
    """The image itself, upside down and moved: texture of the same scene at another place."""
    return np.roll(image[::-1], int(generator.integers(length, image.shape[1])), axis=1).astype(np.float32)


def noisy(image: Pixels, generator: Generator, *, deviation: float, sigma: float = 0.0) -> Pixels:
    """A server whose decoder blurs and adds grain."""
    soft = scipy.ndimage.gaussian_filter(image.astype(np.float32), (sigma, sigma, 0))
    return _levels(soft + generator.normal(0, deviation, image.shape))


def stored(image: Pixels, generator: Generator, *, form: str, quality: int) -> Pixels:
    """A server that answers in a lossy format."""
    file = io.BytesIO()
    Image.fromarray(image).save(file, form, quality=quality)
    return np.asarray(Image.open(file).convert("RGB"))


def resized(image: Pixels, generator: Generator, *, scale: float) -> Pixels:
    """A server that answers in a size of its own, of the same form."""
    size = round(image.shape[1] * scale), round(image.shape[0] * scale)
    return np.asarray(Image.fromarray(image).resize(size, Image.Resampling.BICUBIC))


def difference(first: Pixels, second: Pixels, place: Mask) -> float:
    """Return the mean ΔE*ab by pixel, unblurred; 0 of no place."""
    if not place.any():
        return 0.0
    away = lab(second.astype(np.float32)) - lab(first.astype(np.float32))
    return float(np.linalg.norm(away, axis=-1)[place].mean())


def _seen(image: Pixels, changed: Pixels, place: Mask) -> Pixels | None:
    return changed if difference(image, changed, place) >= VISIBLE else None


def _levels(image: _Floats) -> Pixels:
    levels: Pixels = np.rint(np.clip(image, 0, 255)).astype(np.uint8)
    return levels


@dataclass(frozen=True)
class Stretch:
    """What limits are set on, or tested on: faults by group and name, over-edited attributes, and servers."""

    split: str
    first: int
    faults: Mapping[str, Mapping[str, Plant]]
    over_edited: tuple[str, ...]
    servers: Mapping[str, Server]


def _exact(image: Pixels, generator: Generator) -> Pixels:
    return image


CALIBRATION = Stretch(
    split="development",
    first=4_000_000,
    faults={
        "shift": {
            f"{size:.1%} along a side": partial(shift, size=size, border="nearest", axis=True)
            for size in (0.025, 0.07, 0.14)
        },
        "zoom": {
            f"{scale} about the middle": partial(zoom, scale=scale, border="nearest", centred=True)
            for scale in (0.87, 0.94, 1.06, 1.15)
        },
        "reshape": {"1.1 wider": partial(reshape, wider=1.1)},
        "recolour": {
            "one channel x 1.2": partial(channel, gain=1.2, offset=0.0),
            "one channel x 0.75": partial(channel, gain=0.75, offset=0.0),
            "one channel + 25": partial(channel, gain=1.0, offset=25.0),
        },
        "leak": {
            "flat square 12 %": partial(leak, side=0.12, disc=False, ink=flat),
            "flat square 25 %": partial(leak, side=0.25, disc=False, ink=flat),
            "blurred square 20 %": partial(leak, side=0.20, disc=False, ink=blur),
        },
    },
    over_edited=("background", "colour"),
    servers={
        "exact": _exact,
        "grain of 2 levels": partial(noisy, deviation=2.0),
        "JPEG 92": partial(stored, form="JPEG", quality=92),
    },
)

TEST = Stretch(
    split="validation",
    first=9_800_000,
    faults={
        "shift": {
            f"{size:.0%} in any direction, {border}": partial(shift, size=size, border=border, axis=False)
            for size in (0.02, 0.03, 0.05, 0.1, 0.2)
            for border in ("mirror", "grid-wrap")
        },
        "zoom": {
            f"{scale} about another place": partial(zoom, scale=scale, border="mirror", centred=False)
            for scale in (0.8, 0.9, 0.96, 1.04, 1.1, 1.25)
        },
        "reshape": {"0.95 wide": partial(reshape, wider=0.95), "1.3 wide": partial(reshape, wider=1.3)},
        "recolour": {
            "hue 25°": partial(mixed, matrix=hue_matrix(25.0)),
            "hue 60°": partial(mixed, matrix=hue_matrix(60.0)),
            "gamma 0.7": partial(gamma, power=0.7),
            "gamma 1.4": partial(gamma, power=1.4),
            "half the saturation": partial(mixed, matrix=saturation_matrix(0.5)),
            "warmer": partial(mixed, matrix=np.diag([1.12, 1.0, 0.85])),
        },
        "leak": {
            "other texture 10 %": partial(leak, side=0.10, disc=False, ink=elsewhere),
            "other texture 16 %": partial(leak, side=0.16, disc=False, ink=elsewhere),
            "other texture 35 %": partial(leak, side=0.35, disc=False, ink=elsewhere),
            "disc of turned hue 14 %": partial(leak, side=0.14, disc=True, ink=turned),
            "disc of turned hue 30 %": partial(leak, side=0.30, disc=True, ink=turned),
            "grainy disc 10 %": partial(leak, side=0.10, disc=True, ink=grain),
            "grainy disc 22 %": partial(leak, side=0.22, disc=True, ink=grain),
        },
    },
    over_edited=("companion", "weather", "style", "kind"),
    servers={
        "soft, grain of 3 levels": partial(noisy, deviation=3.0, sigma=0.5),
        "JPEG 80": partial(stored, form="JPEG", quality=80),
        "WebP 85": partial(stored, form="WEBP", quality=85),
        "half as large again": partial(resized, scale=1.5),
        "three quarters": partial(resized, scale=0.75),
    },
)
STRETCHES: Mapping[str, Stretch] = {"calibration": CALIBRATION, "test": TEST}
