"""The quality of the images of an image source, by CLIP."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from counterpose_core.statistics.bootstrap import bootstrap_mean, proportion
from counterpose_core.types import Estimate


@dataclass(frozen=True)
class ImageSourceQuality:
    """Mean similarities of an image source's images to both captions, and the share that passes (fig. 17)."""

    to_object: Estimate
    to_shift: Estimate
    passed: Estimate


def image_source_quality(
    to_object: ArrayLike, to_shift: ArrayLike, kept: ArrayLike, generator: np.random.Generator
) -> ImageSourceQuality:
    """Summarise one image source's images, to compare it with others.

    Args:
        to_object: cosines with the caption of the class (n,).
        to_shift: cosines with the caption of the shift (n,).
        kept: which images pass the filter (n,).
        generator: draws the bootstraps.
    """
    passed = np.asarray(kept, dtype=np.bool_)
    return ImageSourceQuality(
        to_object=bootstrap_mean(np.asarray(to_object, dtype=np.float64).tolist(), generator),
        to_shift=bootstrap_mean(np.asarray(to_shift, dtype=np.float64).tolist(), generator),
        passed=proportion(int(passed.sum()), passed.size),
    )
