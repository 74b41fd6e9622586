"""Weather of ImageNet-C (Hendrycks & Dietterich 2019): snow, frost, fog and spatter.

Their layers are drawn at 224 pixels, with the published numbers, and enlarged to the image.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import scipy

from counterpose_core.transforms.arrays import (
    Floats,
    Pixels,
    as_floats,
    convolved,
    enlarged,
    grid,
    luminance,
    smoothed,
    truncated,
)
from counterpose_core.transforms.blur import enlargement, motion

PLASMA_SIDE = 256
"""Side of a fog's pattern: a power of two, as published for images of 224 pixels."""
ICE = np.array([0.86, 0.95, 1.0], np.float32)
"""Colour of frost: white with some blue."""
NEEDLE_DIRECTIONS = 6
"""Directions in which the needles of one frost grow."""
WATER = np.array([175, 238, 238], np.float32) / 255
MUD = np.array([63, 42, 20], np.float32) / 255
DEEPEST = 20
"""Pixels from the rim of a splash, beyond which it bends light no more."""
STEEP = 150 / 255
"""Least gradient of an edge, as the sum of both Sobel filters."""
RELIEF = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]], np.float32)
"""Light from one corner on the rims of splashes."""


def snow(
    pixels: Pixels,
    *,
    mean: float,
    deviation: float,
    flake: float,
    least: float,
    radius: float,
    sigma: float,
    clear: float,
    generator: np.random.Generator,
) -> Pixels:
    """Let flakes fall: noise enlarged by ``flake``, where above ``least``, blurred downwards.

    The scene under it keeps a share ``clear`` and is whitened for the rest.
    """
    image = as_floats(pixels)
    noise = generator.normal(mean, deviation, grid(pixels))
    starts, steps = zip(*(enlargement(side, flake) for side in noise.shape), strict=True)
    places = np.indices(noise.shape)
    rows, columns = (start + step * place for start, step, place in zip(starts, steps, places, strict=True))
    flakes = scipy.ndimage.map_coordinates(noise, (rows, columns), order=1, mode="nearest")
    flakes = np.clip(np.where(flakes < least, 0, flakes), 0, 1).astype(np.float32)
    fallen = convolved(flakes, motion(radius, sigma, generator.uniform(-135, -45)))
    layer = enlarged(fallen, pixels)[..., None]
    white = np.maximum(image, luminance(image)[..., None] * 1.5 + 0.5)
    return truncated(clear * image + (1 - clear) * white + layer + layer[::-1, ::-1])


def frost(pixels: Pixels, *, clear: float, ice: float, generator: np.random.Generator) -> Pixels:
    """Add crystals of ice to a scene that keeps a share ``clear``.

    The published photographs of frost are not ours to ship: needles and patches are drawn instead.
    """
    shape = grid(pixels)
    needles = np.zeros(shape, np.float32)
    for degrees in generator.uniform(0, 180, NEEDLE_DIRECTIONS):
        streaks = convolved(generator.standard_normal(shape, dtype=np.float32), motion(20, 8, degrees))
        needles = np.maximum(needles, np.clip(streaks / streaks.std() / 3, 0, 1))
    patches = plasma(generator, decay=1.7)[: shape[0], : shape[1]]
    # By trial: brightness, contrast and spectrum of the results are near those with the photographs.
    crystals = enlarged(np.clip(0.25 + 0.55 * patches + 0.5 * needles * patches, 0, 1), pixels)
    return truncated(clear * as_floats(pixels) + ice * crystals[..., None] * ICE)


def fog(pixels: Pixels, *, density: float, decay: float, generator: np.random.Generator) -> Pixels:
    """Add a cloud of fractal noise and darken all until the brightest value is as before."""
    image = as_floats(pixels)
    height, width = grid(pixels)
    cloud = enlarged(plasma(generator, decay)[:height, :width], pixels)
    brightest = float(image.max())
    return truncated((image + density * cloud[..., None]) * (brightest / (brightest + density)))


def plasma(generator: np.random.Generator, decay: float) -> Floats:
    """Return fractal noise from 0 to 1 on a square whose edges meet, by midpoint displacement.

    A larger ``decay`` makes it smoother (Fournier, Fussell & Carpenter 1982).
    """
    field = np.zeros((PLASMA_SIDE, PLASMA_SIDE))
    step, range_ = PLASMA_SIDE, 100.0
    while step > 1:
        half = step // 2
        corners = field[::step, ::step]
        beside = corners + np.roll(corners, -1, 0)
        middles = _displaced(beside + np.roll(beside, -1, 1), range_, generator)
        field[half::step, half::step] = middles
        for axis, edges in ((0, field[::step, half::step]), (1, field[half::step, ::step])):
            around = middles + np.roll(middles, 1, axis) + corners + np.roll(corners, -1, 1 - axis)
            edges[...] = _displaced(around, range_, generator)
        step, range_ = half, range_ / decay
    field -= field.min()
    cloud: Floats = (field / field.max()).astype(np.float32)
    return cloud


def _displaced(around: Floats, range_: float, generator: np.random.Generator) -> Floats:
    # The range counts twice, as in the released code: published decays suppose it.
    return around / 4 + range_ * generator.uniform(-range_, range_, around.shape)


def spatter(
    pixels: Pixels,
    *,
    mean: float,
    deviation: float,
    sigma: float,
    least: float,
    strength: float,
    mud: float,
    generator: np.random.Generator,
) -> Pixels:
    """Splash water, or where ``mud`` is 1 mud, on the lens: where blurred noise lies above ``least``.

    Water brightens by ``strength`` at most; mud hides what is below it, its rim blurred by ``strength``.
    """
    liquid = smoothed(generator.normal(mean, deviation, grid(pixels)).astype(np.float32), sigma)
    image = as_floats(pixels)
    if mud:
        cover = smoothed((liquid > least).astype(np.float32), strength)
        cover = enlarged(np.where(cover < 0.8, np.float32(0), cover), pixels)[..., None]
        return truncated(image * (1 - cover) + MUD * cover)
    splashes = np.where(liquid < least, 0, liquid)
    light = splashes * _rims(splashes)
    light *= strength / max(float(light.max()), 1e-6)
    return truncated(image + enlarged(light.astype(np.float32), pixels)[..., None] * WATER)


def _rims(splashes: Floats) -> Floats:
    """Return how splashes reflect light from a corner, from the distances to their edges."""
    # Without any edge there is no distance, and SciPy's is arbitrary.
    depth = np.clip(scipy.ndimage.distance_transform_edt(~_edges(splashes)), 0, DEEPEST)
    # SciPy's running sums miss whole numbers by rounding.
    depth = np.floor(scipy.ndimage.uniform_filter(depth, 3, mode="mirror") + 1e-6).astype(np.intp)
    # Depths become ranks from 0 to 255: rims are as light whether splashes are large or small.
    ranks = np.cumsum(np.bincount(depth.ravel()))
    ranks = (ranks - ranks[depth.min()]) / max(depth.size - ranks[depth.min()], 1) * 255
    light = np.clip(scipy.ndimage.correlate(ranks[depth], RELIEF, mode="mirror"), 0, 255)
    rims: Floats = scipy.ndimage.uniform_filter(light.astype(np.float32), 3, mode="mirror")
    return rims


def _edges(splashes: Floats) -> npt.NDArray[np.bool_]:
    """Return where a steep gradient is largest along its own direction (Canny 1986, with one threshold)."""
    down, across = (scipy.ndimage.sobel(splashes, axis, mode="nearest") for axis in (0, 1))
    steepness = np.abs(down) + np.abs(across)
    flat = np.abs(down) < math.tan(math.pi / 8) * np.abs(across)
    upright = np.abs(across) < math.tan(math.pi / 8) * np.abs(down)
    falling = ~flat & ~upright & (down * across > 0)
    rising = ~flat & ~upright & ~falling
    edges = np.zeros(splashes.shape, bool)
    for chosen, step in ((flat, (0, 1)), (upright, (1, 0)), (falling, (1, 1)), (rising, (1, -1))):
        before, after = np.roll(steepness, step, (0, 1)), np.roll(steepness, (-step[0], -step[1]), (0, 1))
        # Both sides of a step are as steep: the first counts, or there would be no edge at all.
        edges |= chosen & (steepness > before) & (steepness >= after)
    edges &= steepness > STEEP
    return edges
