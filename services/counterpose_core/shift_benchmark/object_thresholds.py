"""The least CLIP similarity at which an image counts as showing its class (DI, A.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from counterpose_core.errors import DatasetEmpty, InvalidRequest
from counterpose_core.images.clip_metrics import cosines
from counterpose_core.statistics.bootstrap import CONFIDENCE, Floats, proportion
from counterpose_core.types import Estimate

OBJECT_PERCENTILE = 5.0
"""Our choice: neither the paper nor its code states the percentile. One real image in twenty fails."""

_COSINES = (-1.0, 1.0)


@dataclass(frozen=True)
class ObjectThreshold:
    """A percentile of the similarities of a class's real images, and the share of them below it."""

    threshold: Estimate
    dropped: Estimate


@dataclass(frozen=True)
class ObjectThresholds:
    """Thresholds of all classes, for one CLIP and one form of caption.

    ``photo`` is True for "a photo of a <class>" and False for "a <class>", the caption of styles.
    """

    checkpoint: str
    percentile: float
    photo: bool
    by_class: Mapping[str, ObjectThreshold]

    def of(self, classes: Sequence[str]) -> Floats:
        """Return the thresholds (classes,) in the given order.

        Raises:
            InvalidRequest: a class has no threshold.
        """
        unknown = [name for name in classes if name not in self.by_class]
        if unknown:
            raise InvalidRequest(f"the class {unknown[0]!r} has no object threshold; set one for it")
        return np.array([self.by_class[name].threshold.estimate for name in classes], dtype=np.float64)


def object_thresholds(
    similarities: Mapping[str, ArrayLike],
    *,
    checkpoint: str,
    percentile: float = OBJECT_PERCENTILE,
    photo: bool = True,
) -> ObjectThresholds:
    """Set each class's threshold to a percentile of the similarities of its real images.

    Args:
        similarities: by class, the cosines (n,) of real validation images with the caption of the class.
        checkpoint: the CLIP of these cosines.
        percentile: the percentile, from 0 to 100.
        photo: whether the caption is "a photo of a <class>".

    Raises:
        InvalidRequest: the percentile is not from 0 to 100.
        DatasetEmpty: a class has no real image.
        NumericalFailure: a similarity is not a cosine.
    """
    if not 0.0 <= percentile <= 100.0:
        raise InvalidRequest(
            f"{percentile!r} is not a percentile; choose one from 0 to 100", pointer="/percentile"
        )
    found = {name: _threshold(name, given, percentile / 100.0) for name, given in similarities.items()}
    return ObjectThresholds(checkpoint=checkpoint, percentile=percentile, photo=photo, by_class=found)


def _threshold(name: str, given: ArrayLike, share: float) -> ObjectThreshold:
    values = np.sort(cosines(given, f"the class {name!r}"))
    if values.size == 0:
        raise DatasetEmpty(f"the class {name!r} has no real image to set its threshold by; add some")
    threshold = float(np.quantile(values, share))
    dropped = int(np.sum(values < threshold))
    return ObjectThreshold(_with_interval(values, share, threshold), proportion(dropped, values.size))


def _with_interval(values: Floats, share: float, threshold: float) -> Estimate:
    """Return a quantile of sorted cosines with its exact interval between two of them, or -1 or 1."""
    tail = (1.0 - CONFIDENCE) / 2.0
    below = int(scipy.stats.binom.ppf(tail, values.size, share))
    above = int(scipy.stats.binom.ppf(1.0 - tail, values.size, share))
    low = float(values[below - 1]) if below > 0 else _COSINES[0]
    high = float(values[above]) if above < values.size else _COSINES[1]
    return Estimate(estimate=threshold, low=min(low, threshold), high=max(high, threshold), n=values.size)
