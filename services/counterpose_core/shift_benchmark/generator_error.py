"""The error that the generator adds to an impact, beyond the sampling of seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from counterpose_core.types import Estimate

GENERATOR_ERRORS: Mapping[str, Mapping[str, float]] = {"miniature": {"token": 0.018, "class-name": 0.023}}
"""Standard deviation of the error of impacts by model suite and image source, where the truth is known.

Impacts from generated images against those of renderings, over 11 shifts, less the variance of the seeds
(DerSimonian and Laird 1986): evaluation/results/interface-validity.json.
"""

# A literal: to compute it, each process would load scipy.stats at its start.
_NORMAL = 1.959963984540054


def with_generator_error(impact: Estimate, suite: str, source: str) -> Estimate | None:
    """Return an impact with an interval that also holds the error of the generator, or None if unknown.

    estimate ± sqrt(half² + (1.96 tau)²) at either end, with the half width of the interval over seeds and the
    error tau of the suite and image source.

    Args:
        impact: the impact with its interval over seeds.
        suite: the name of the model suite.
        source: the image source.
    """
    tau = GENERATOR_ERRORS.get(suite, {}).get(source)
    if tau is None or impact.estimate is None or impact.low is None or impact.high is None:
        return None
    low = impact.estimate - math.hypot(impact.estimate - impact.low, _NORMAL * tau)
    high = impact.estimate + math.hypot(impact.high - impact.estimate, _NORMAL * tau)
    low, high = (float(end) for end in np.clip([low, high], -1.0, 1.0))
    return impact.model_copy(update={"low": low, "high": high})
