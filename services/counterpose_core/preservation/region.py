"""The region of a change, estimated from the differences of a pair where no mask is given."""

from __future__ import annotations

import numpy as np
import scipy

from counterpose_core.preservation.change import Maps
from counterpose_core.transforms.arrays import Mask

VISIBLE_COLOUR, VISIBLE_STRUCTURE = 8.0, 0.6
"""ΔE*ab of blurred colours, and 1 - SSIM, from which on a pixel counts as changed. The first is three to four
times what is just noticeable."""
CLOSED = 0.03
"""Share of the longest side up to which gaps are closed, and specks dropped."""


def region_of_change(differences: Maps) -> Mask:
    """Return where (H, W) a pair differs visibly, gaps closed and specks dropped; possibly nowhere."""
    changed = (differences.colour > VISIBLE_COLOUR) | (differences.structure > VISIBLE_STRUCTURE)
    reach = max(1, round(CLOSED * max(changed.shape) / 2))
    padded = np.pad(changed, 2 * reach)
    disc = np.hypot(*np.mgrid[-reach : reach + 1, -reach : reach + 1]) <= reach + 0.5
    closed = scipy.ndimage.binary_closing(padded, disc)[2 * reach : -2 * reach, 2 * reach : -2 * reach]
    parts, count = scipy.ndimage.label(closed)
    sizes = np.bincount(parts.ravel(), minlength=count + 1)
    large = sizes >= disc.sum()
    large[0] = False
    return np.asarray(large[parts])
