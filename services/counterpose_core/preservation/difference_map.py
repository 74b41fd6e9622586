"""The difference map of a pair: how far each place changed, in colours that every eye tells apart."""

from __future__ import annotations

import numpy as np
import scipy

from counterpose_core.preservation.arrays import luminance
from counterpose_core.preservation.scores import LEAST_SIDE, Compared, compared
from counterpose_core.transforms.arrays import Mask, Matte, Pixels, as_pixels

# Blue to yellow by way of grey, darker to lighter: no red is told from a green, and it prints in grey.
_RAMP = np.array([[0, 32, 77], [88, 91, 109], [165, 156, 116], [255, 234, 70]]) / 255
LARGEST = 40.0
"""ΔE*ab that is drawn in full yellow."""
UNSEEN = 0.5
"""Grey of places that a movement took out of the edited image: nothing is there to compare."""
FAINT = 0.25
"""How much of the source's brightness shows through, so that places are found again."""


def difference_map(source: Pixels, edited: Pixels, *, region: Mask | Matte | None = None) -> Pixels:
    """Return the differences (h, w, 3), at most `WORKING_SIDE` long, with the region's outline.

    Blue is unchanged, yellow differs by `LARGEST` or more; the outline is white within black. A movement is
    undone before, as in the scores, and what left the image is grey; an estimated region is outlined as a
    given one is.

    Args:
        source: the image (H, W, 3), sRGB.
        edited: what an editor made of it, of any size.
        region: true, or at least 128, (H, W) where the source was to change.

    Raises:
        ValueError: the region has another size than the source, or a side is shorter than `LEAST_SIDE`.
    """
    if min(*source.shape[:2], *edited.shape[:2]) < LEAST_SIDE:
        raise ValueError(f"a difference map needs images of at least {LEAST_SIDE} pixels a side")
    return drawn(compared(source, edited, region=region))


def drawn(pair: Compared) -> Pixels:
    """Return the difference map (h, w, 3) of a pair that was compared."""
    levels = np.clip(pair.differences.colour / LARGEST, 0, 1)
    stops = np.linspace(0, 1, len(_RAMP))
    colours = np.stack([np.interp(levels, stops, channel) for channel in _RAMP.T], axis=-1)
    bright = luminance(pair.source)[..., None] / 255
    shown = colours * (1 - FAINT * (1 - bright))
    shown[~pair.visible] = UNSEEN
    for colour, line in zip((1.0, 0.0), _outline(pair.region), strict=True):
        shown[line] = colour
    return as_pixels(shown)


def _outline(region: Mask) -> tuple[Mask, Mask]:
    """Return the region's last pixels, and the first outside it: one line is seen on any ground."""
    inner = region & ~scipy.ndimage.binary_erosion(region, border_value=1)
    outer = ~region & scipy.ndimage.binary_dilation(region)
    return inner, outer
