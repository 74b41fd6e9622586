"""Mean corruption error where its definition holds (Hendrycks and Dietterich 2019), else a plain mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from counterpose_core.statistics.bootstrap import Floats

ALEXNET: Mapping[str, float] = MappingProxyType(
    {
        "gaussian-noise": 0.886,
        "shot-noise": 0.894,
        "impulse-noise": 0.923,
        "defocus-blur": 0.820,
        "glass-blur": 0.826,
        "motion-blur": 0.786,
        "zoom-blur": 0.798,
        "snow": 0.867,
        "frost": 0.827,
        "fog": 0.819,
        "brightness": 0.565,
        "contrast": 0.853,
        "elastic-transform": 0.646,
        "pixelate": 0.718,
        "jpeg-compression": 0.607,
    }
)
"""AlexNet's error on each of the 15 corruptions of ImageNet-C, the mean of its five levels, as published."""

ALEXNET_CLEAN = 0.435
"""AlexNet's error on ImageNet's validation images, as published."""

LEVELS = (1, 2, 3, 4, 5)


def is_grid_of_imagenet_c(operations: Mapping[str, Sequence[int]]) -> bool:
    """Whether the operations are the 15 corruptions of ImageNet-C, each at its five levels, and no other."""
    return operations.keys() == ALEXNET.keys() and all(tuple(each) == LEVELS for each in operations.values())


def corruption_errors(errors: Floats, operations: Sequence[str]) -> Floats:
    """Return of each group of images the value whose mean is the mean corruption error, 1 for AlexNet's.

    Args:
        errors: the mean error over levels, of each group and corruption (groups, corruptions).
        operations: the names of the corruptions, in that order.
    """
    return np.asarray((errors / _published(operations)).mean(axis=1))


def relative_corruption_errors(errors: Floats, clean: Floats, operations: Sequence[str]) -> Floats:
    """Return the same of the relative mean corruption error.

    Args:
        errors: as of `corruption_errors`.
        clean: the error of each group with nothing changed (groups,).
        operations: as of `corruption_errors`.
    """
    return np.asarray(((errors - clean[:, None]) / (_published(operations) - ALEXNET_CLEAN)).mean(axis=1))


def _published(operations: Sequence[str]) -> Floats:
    return np.array([ALEXNET[name] for name in operations])
