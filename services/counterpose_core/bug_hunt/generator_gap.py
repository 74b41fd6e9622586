"""What a failure rate on a generator's images says of the images that a user takes."""

from __future__ import annotations

import numpy as np
import scipy

LEVEL = 0.05
"""The chance that a rate in the user's world lies below the bound."""
_POINTS = 512


def least_rate(failures: int, images: int, gap: float) -> float:
    """Return the failure rate that a user's images of a description reach with 95 % confidence, in [0, 1].

    The rate on the generator's images is as uncertain as Clopper and Pearson's lower bound says; the user's
    rate differs from it by a normal error of the log-odds. There is no upper bound: a circumstance that the
    generator draws badly may always fail.

    Args:
        failures: held-out images that fail.
        images: how many were drawn, fixed before any was seen.
        gap: standard deviation of the error, above 0.
    """
    if failures == 0:
        return 0.0
    levels = (np.arange(_POINTS) + 0.5) / _POINTS
    drawn = scipy.special.logit(scipy.stats.beta.ppf(levels, failures, images - failures + 1))

    def excess(odds: float) -> float:
        return float(scipy.stats.norm.cdf((odds - drawn) / gap).mean()) - LEVEL

    # Far below and above any: the errors of the log-odds end within eight deviations.
    low, high = float(drawn.min()) - 8.0 * gap, float(drawn.max()) + 8.0 * gap
    return float(scipy.special.expit(scipy.optimize.brentq(excess, low, high)))
