"""How much a pair differs inside and outside a region: structure, colour, and patches of a network.

Means tell how much of a place changed, the worst window whether anything in it did: a leak of a hundredth of
the image hardly moves a mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from counterpose_core.images.clip_metrics import cosine
from counterpose_core.preservation.arrays import Floats, luminance, reduced
from counterpose_core.transforms.arrays import Mask

SIGMA, RANGE = 1.5, 255.0
"""The window of SSIM and the range of its levels (Wang et al. 2004, section III.C)."""
_C1, _C2 = (0.01 * RANGE) ** 2, (0.03 * RANGE) ** 2
BLUR = 0.01
"""Share of the longest side by which colours are blurred before they are compared: noise averages out."""
WINDOW = 0.08
"""Side of the window whose worst place is told, in shares of the longest side."""
FILLED = 0.5
"""Share of a window that must belong to the place."""


@dataclass(frozen=True)
class Change:
    """How a place of the image differs. All are 0 of equal images.

    ``structure`` is 1 - SSIM, 0 to 2, on average; ``colour`` the mean ΔE*ab of CIELAB, whose 2.3 is just
    noticeable; both also of the worst window. ``patches`` is the mean cosine distance of a network's patches,
    0 to 2, and ``perceptual`` the mean of a distance that the caller computed, such as LPIPS; None if not
    given. ``share`` is the place's share of the image.
    """

    share: float
    structure: float
    colour: float
    worst_structure: float
    worst_colour: float
    patches: float | None = None
    perceptual: float | None = None


@dataclass(frozen=True)
class Maps:
    """Differences by pixel (H, W): 1 - SSIM, ΔE*ab of blurred colours, and what the caller gave."""

    structure: Floats
    colour: Floats
    patches: Floats | None = None
    perceptual: Floats | None = None

    def within(self, place: Mask) -> Change | None:
        """Return the change of a place (H, W); None if not one window lies in it."""
        side = max(3, round(WINDOW * max(place.shape)) | 1)
        filled = scipy.ndimage.uniform_filter(place.astype(np.float32), side, mode="constant")
        windows = filled >= FILLED
        if not windows.any():
            return None
        structure, colour = (
            scipy.ndimage.uniform_filter(difference * place, side, mode="constant")[windows] / filled[windows]
            for difference in (self.structure, self.colour)
        )
        optional = [
            None if distance is None else float(distance[place].mean())
            for distance in (self.patches, self.perceptual)
        ]
        return Change(
            float(place.mean()),
            float(self.structure[place].mean()),
            float(self.colour[place].mean()),
            float(structure.max()),
            float(colour.max()),
            *optional,
        )


def ssim(source: Floats, edited: Floats) -> Floats:
    """Return the structural similarity (H, W), -1 to 1, of levels, 0 to 255 (Wang et al. 2004, eq. 13)."""
    mean, mean_edited = _blurred(source), _blurred(edited)
    variance = _blurred(source**2) - mean**2
    variance_edited = _blurred(edited**2) - mean_edited**2
    covariance = _blurred(source * edited) - mean * mean_edited
    above = (2 * mean * mean_edited + _C1) * (2 * covariance + _C2)
    # Rounding makes variances of flat places negative.
    spread = np.maximum(variance, 0) + np.maximum(variance_edited, 0) + _C2
    return np.asarray(above / ((mean**2 + mean_edited**2 + _C1) * spread))


def _blurred(image: Floats) -> Floats:
    return np.asarray(scipy.ndimage.gaussian_filter(image, SIGMA, mode="nearest", truncate=3.5))


def colour_difference(source: Floats, edited: Floats) -> Floats:
    """Return ΔE*ab (H, W) between blurred colours in CIELAB (H, W, 3) (CIE 15:2004, 8.2.1)."""
    sigma = max(0.7, BLUR * max(source.shape[:2]))
    away = [
        scipy.ndimage.gaussian_filter(channel, sigma, mode="nearest")
        for channel in np.moveaxis(edited - source, -1, 0)
    ]
    return np.asarray(np.sqrt(np.sum(np.square(away), axis=0)))


def patch_distance(source: npt.ArrayLike, edited: npt.ArrayLike, size: tuple[int, int]) -> Floats:
    """Return the cosine distances, 0 to 2, of patch features (h, w, d), enlarged to (height, width).

    Raises:
        NumericalFailure: a feature is zero or not finite.
        ValueError: both do not have the same shape (h, w, d).
    """
    first, second = (np.asarray(features, dtype=np.float64) for features in (source, edited))
    if first.ndim != 3 or first.shape != second.shape:
        raise ValueError(f"patch features must both be (h, w, d), not {first.shape} and {second.shape}")
    return reduced((1.0 - cosine(first, second)).astype(np.float32), size)


def maps(
    source: Floats,
    edited: Floats,
    colours: tuple[Floats, Floats],
    patches: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    perceptual: npt.NDArray[np.floating[Any]] | None = None,
) -> Maps:
    """Return the differences by pixel of two images of levels (H, W, 3) with their CIELAB colours."""
    size = source.shape[0], source.shape[1]
    return Maps(
        1.0 - ssim(luminance(source), luminance(edited)),
        colour_difference(*colours),
        None if patches is None else patch_distance(*patches, size),
        None if perceptual is None else reduced(perceptual, size),
    )
