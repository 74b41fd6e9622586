"""The line through models' base and shifted accuracies: does a better model stay better under a shift?"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from counterpose_core.statistics.bootstrap import Floats
from counterpose_core.statistics.bootstrap_result import Singles, tails_of
from counterpose_core.types import Estimate

LEAST_MODELS = 3
"""Two models always lie on a line."""

LEAST_RELIABILITY = 0.7
"""Below this share of true differences among models, the correction would rest on the noise."""

_SAME = 1e-9


@dataclass(frozen=True)
class Slope:
    """A slope with its interval over images, and its sensitivity to single models.

    ``without_one`` is the range of the slopes that leave out one model, or None if too few would be left.
    ``leaning_on`` is the model whose removal changes the slope most. n counts models. ``reliability`` is the
    share of the variance of the base accuracies that is not the sampling of images, None with too few
    models; ``refused`` says why there is no slope.
    """

    slope: Estimate
    without_one: tuple[float, float] | None
    leaning_on: str | None
    reliability: float | None = None
    refused: str | None = None


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


def _centred(values: Floats) -> Floats:
    return np.asarray(values - values.mean(axis=-1, keepdims=True))


def probit(accuracies: ArrayLike, images: int) -> Floats:
    """Return accuracies (0 to 1) on the normal scale, where models lie near a line (Miller et al. 2021).

    0 and 1 would be infinite, so an accuracy on n ``images`` is clipped to [1 / (2 n), 1 - 1 / (2 n)], half
    an image from either end.
    """
    margin = 0.5 / max(1, images)
    return np.asarray(
        scipy.special.ndtri(np.clip(np.asarray(accuracies, dtype=np.float64), margin, 1.0 - margin))
    )


def linear_slope(accuracies: ModelAccuracies) -> Slope:
    """Return the ID/OOD slope of the paper (DI, section 6)."""
    return _slope(accuracies, lambda values, _: values)


def probit_slope(accuracies: ModelAccuracies) -> Slope:
    """Return the slope with both accuracies on the normal scale."""
    return _slope(accuracies, probit)


@dataclass(frozen=True)
class _Line:
    """Accuracies of models (models,) on one scale, and the errors of resampling (draws, models)."""

    base: Floats
    shifted: Floats
    base_errors: Floats
    shifted_errors: Floats

    def without(self, model: int) -> _Line:
        fields = (self.base, self.shifted, self.base_errors, self.shifted_errors)
        return _Line(*(np.delete(values, model, axis=-1) for values in fields))

    @property
    def spread(self) -> float:
        """The sum of squares of the base accuracies."""
        return float(np.sum(_centred(self.base) ** 2))

    @property
    def noise(self) -> tuple[float, float]:
        """The part of the sums of squares and of products that the sampling of images is expected to add."""
        x, y = _centred(self.base_errors), _centred(self.shifted_errors)
        return float(np.sum(x * x) / len(x)), float(np.sum(x * y) / len(x))

    @property
    def reliability(self) -> float:
        """The share of the spread that is not noise; 0 or below where all of it may be."""
        return 1.0 - self.noise[0] / self.spread if self.spread > _SAME**2 else 0.0

    @property
    def slope(self) -> float:
        """The slope by errors in variables: least squares without the noise (Fuller 1987, 1.2)."""
        v, c = self.noise
        left = self.spread - v
        if left <= _SAME**2:
            return math.nan
        return float(np.sum(_centred(self.base) * _centred(self.shifted)) - c) / left

    def errors(self, slope: float) -> Floats:
        """Return the error of the slope in each draw (draws,), of first and second order in the noise."""
        x = _centred(self.base_errors)
        residuals = _centred(self.shifted_errors) - slope * x
        v, c = self.noise
        moved = np.sum((_centred(self.base) + x) * residuals, axis=-1) - (c - slope * v)
        return np.asarray(moved / (self.spread - v))


def _slope(found: ModelAccuracies, scale: Callable[[ArrayLike, int], ArrayLike]) -> Slope:
    n = len(found.models)
    line = _Line(
        *(
            np.asarray(values, dtype=np.float64)
            for values in (
                scale(found.base, found.base_images),
                scale(found.shifted, found.shifted_images),
                _errors(scale(found.base_draws, found.base_images)),
                _errors(scale(found.shifted_draws, found.shifted_images)),
            )
        )
    )
    if n < LEAST_MODELS:
        return _refused(n, None, f"a slope takes {LEAST_MODELS} models, not {n}")
    reliability = max(0.0, line.reliability)
    if reliability < LEAST_RELIABILITY:
        why = (
            f"of the spread of the models' base accuracies only {100 * reliability:.0f} % is not noise: "
            f"a slope takes {100 * LEAST_RELIABILITY:.0f} %, so more images or models that differ more"
        )
        return _refused(n, reliability, why)
    whole = line.slope
    # The corrected slope lies at the centre of its errors, which are not skewed by the noise taken out.
    tails = scipy.special.ndtr(tails_of(found.freedom))
    low, high = (whole - float(end) for end in np.quantile(line.errors(whole), tails)[::-1])
    estimate = Estimate(estimate=whole, low=min(low, whole), high=max(high, whole), n=n)
    return Slope(estimate, *_without_one(found.models, line, whole), reliability=reliability)


def _errors(draws: ArrayLike) -> Floats:
    values = np.asarray(draws, dtype=np.float64)
    return np.asarray(values - values.mean(axis=0))


def _refused(n: int, reliability: float | None, why: str) -> Slope:
    return Slope(Estimate(estimate=None, low=None, high=None, n=n), None, None, reliability, why)


def _without_one(
    models: Sequence[str], line: _Line, whole: float
) -> tuple[tuple[float, float] | None, str | None]:
    if len(models) <= LEAST_MODELS:
        return None, None
    rest = [line.without(out) for out in range(len(models))]
    left = np.array([each.slope if each.reliability >= LEAST_RELIABILITY else math.nan for each in rest])
    if np.isnan(left).all():
        return None, None
    # NaN if too little but noise is left without the model; of four models, another one leaves a line.
    leaning_on = models[int(np.nanargmax(np.abs(left - whole)))]
    return (float(np.nanmin(left)), float(np.nanmax(left))), leaning_on
