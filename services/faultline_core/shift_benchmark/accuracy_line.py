"""The line through models' base and shifted accuracies: does a better model stay better under a shift?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from faultline_core.statistics.bootstrap import Floats, bca_ends
from faultline_core.statistics.bootstrap_result import Singles, tails_of
from faultline_core.types import Estimate

LEAST_MODELS = 3
"""Two models always lie on a line."""

_SAME = 1e-9
_LEAST_DETERMINED = 0.5


@dataclass(frozen=True)
class Slope:
    """A slope with its interval over images, and its sensitivity to single models.

    ``without_one`` is the range of the slopes that leave out one model, or None if too few would be left.
    ``leaning_on`` is the model whose removal changes the slope most. n counts models.
    """

    slope: Estimate
    without_one: tuple[float, float] | None
    leaning_on: str | None


@dataclass(frozen=True)
class ModelAccuracies:
    """Base and shifted accuracies of models (models,), and their draws (draws, models).

    ``base_images`` and ``shifted_images`` are the numbers of images behind each accuracy, ``freedom`` the
    degrees of freedom of their spread.
    """

    models: tuple[str, ...]
    base: Floats
    shifted: Floats
    base_draws: Singles
    shifted_draws: Singles
    base_images: int
    shifted_images: int
    freedom: int


def slopes(base: ArrayLike, shifted: ArrayLike) -> Floats:
    """Return least-squares slopes (...) of ``shifted`` on ``base``, both (..., models); NaN if all equal."""
    x, y = np.asarray(base, dtype=np.float64), np.asarray(shifted, dtype=np.float64)
    x, y = x - x.mean(axis=-1, keepdims=True), y - y.mean(axis=-1, keepdims=True)
    spread = np.sum(x * x, axis=-1)
    flat = np.ptp(x, axis=-1) <= _SAME
    return np.asarray(np.where(flat, np.nan, np.sum(x * y, axis=-1) / np.where(flat, 1.0, spread)))


def probit(accuracies: ArrayLike, images: int) -> Floats:
    """Return accuracies (0 to 1) on the normal scale, where models lie near a line (Miller et al. 2021).

    0 and 1 would be infinite, so an accuracy on n ``images`` is clipped to [1 / (2 n), 1 - 1 / (2 n)], half
    an image from either end.
    """
    margin = 0.5 / max(1, images)
    return np.asarray(special.ndtri(np.clip(np.asarray(accuracies, dtype=np.float64), margin, 1.0 - margin)))


def linear_slope(accuracies: ModelAccuracies) -> Slope:
    """Return the ID/OOD slope of the paper (DI, section 6)."""
    return _slope(accuracies, lambda values, _: values)


def probit_slope(accuracies: ModelAccuracies) -> Slope:
    """Return the slope with both accuracies on the normal scale."""
    return _slope(accuracies, probit)


def _slope(found: ModelAccuracies, scale: Callable[[ArrayLike, int], ArrayLike]) -> Slope:
    n = len(found.models)
    base = np.asarray(scale(found.base, found.base_images))
    shifted = np.asarray(scale(found.shifted, found.shifted_images))
    whole = float(slopes(base, shifted)) if n >= LEAST_MODELS else np.nan
    if np.isnan(whole):
        return Slope(Estimate(estimate=None, low=None, high=None, n=n), None, None)
    drawn = slopes(
        scale(found.base_draws, found.base_images), scale(found.shifted_draws, found.shifted_images)
    )
    drawn = drawn[~np.isnan(drawn)]
    if drawn.size < _LEAST_DETERMINED * len(found.base_draws):
        return Slope(Estimate(estimate=None, low=None, high=None, n=n), None, None)
    # Noise in the base flattens the line, and resampled noise flattens it again: BCa removes that bias.
    low, high = bca_ends(whole, drawn, skew=0.0, tails=tails_of(found.freedom))
    estimate = Estimate(estimate=whole, low=min(low, whole), high=max(high, whole), n=n)
    return Slope(estimate, *_without_one(found.models, base, shifted, whole))


def _without_one(
    models: Sequence[str], base: Floats, shifted: Floats, whole: float
) -> tuple[tuple[float, float] | None, str | None]:
    if len(models) <= LEAST_MODELS:
        return None, None
    left = np.array([slopes(np.delete(base, out), np.delete(shifted, out)) for out in range(len(models))])
    # NaN if the model left out was the only one that differed; of four models, another one leaves a line.
    leaning_on = models[int(np.nanargmax(np.abs(left - whole)))]
    return (float(np.nanmin(left)), float(np.nanmax(left))), leaning_on
