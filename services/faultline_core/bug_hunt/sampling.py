"""How many images to draw for a failure rate, and what the rate is then: three rules with exact intervals."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import scipy
from pydantic import BaseModel, ConfigDict, Field

from faultline_core.statistics.bootstrap import CONFIDENCE, proportion
from faultline_core.types import Estimate

PAPER_FAILURES = 20
"""The number of target failures at which the paper stops."""

_TAIL = (1.0 - CONFIDENCE) / 2.0
_PRIOR = 0.5
_BISECTIONS = 60


class _Rule(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FixedSampling(_Rule):
    """Draw ``images``, whatever they show."""

    name: Literal["fixed"] = "fixed"
    images: int = Field(ge=1)

    def is_decided(self, failures: int, images: int) -> bool:
        """Whether no more images are needed."""
        return images >= self.images

    def rate(self, failures: int, images: int) -> Estimate:
        """Return the failure rate with its 95 % interval (Clopper-Pearson, or Wilson)."""
        return proportion(failures, images)


class InverseSampling(_Rule):
    """Draw until ``failures`` images have failed, as the paper does with 20, and at most ``most_images``.

    The paper's r / N is too high by a factor of about r / (r - 1). Unbiased is (r - 1) / (N - 1) (Haldane
    1945), and k / n where the budget ended the drawing with k < r failures (Girshick, Mosteller and Savage
    1946: of all ways to this end, the share that begins with a failure).
    """

    name: Literal["inverse"] = "inverse"
    failures: int = Field(default=PAPER_FAILURES, ge=2)
    most_images: int = Field(ge=1)

    def is_decided(self, failures: int, images: int) -> bool:
        """Whether no more images are needed."""
        return failures >= self.failures or images >= self.most_images

    def rate(self, failures: int, images: int) -> Estimate:
        """Return the failure rate with its exact 95 % interval, as of the image that decided.

        ``images`` ends with the failure that decided, if ``failures`` reached the rule's number.
        """
        if failures < self.failures:
            low, high = _ends(failures, images, images)
            found = failures / images if images else None
            return _estimate(found, low, high, images)
        # Up to n images at least r failures came; up to n - 1 at most r - 1.
        low, high = _ends(failures, images, images - 1)
        return _estimate((failures - 1) / max(images - 1, 1), low, high, images)


class SequentialSampling(_Rule):
    """Draw until the rate is known to lie on one side of ``threshold``, and at most ``most_images``.

    The interval holds however one looks and whenever one stops (a confidence sequence), so that a hunt may be
    looked at while it goes, and stopped.
    """

    name: Literal["sequential"] = "sequential"
    threshold: float = Field(ge=0.0, lt=1.0)
    most_images: int = Field(ge=1)

    def is_decided(self, failures: int, images: int) -> bool:
        """Whether no more images are needed."""
        if images >= self.most_images:
            return True
        rate = self.rate(failures, images)
        if rate.low is None or rate.high is None:
            return False
        return rate.low > self.threshold or rate.high < self.threshold

    def rate(self, failures: int, images: int) -> Estimate:
        """Return the failure rate with its 95 % interval, which holds at every stop."""
        if images == 0:
            return _estimate(None, 0.0, 1.0, 0)
        low, high = confidence_sequence(failures, images)
        return _estimate(failures / images, low, high, images)


Sampling = Annotated[FixedSampling | InverseSampling | SequentialSampling, Field(discriminator="name")]


def confidence_sequence(failures: int, images: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the rates that a gambler with a mixture of bets has not yet made implausible.

    The capital against a rate p is the mean likelihood over Jeffreys' prior, divided by the likelihood of p.
    At the true rate its expected value is 1 at every stop, so it ever exceeds 1 / (1 - confidence) with a
    probability of at most 1 - confidence (Ville's inequality; Robbins 1970).

    Args:
        failures: how many of the images failed.
        images: at least 1.
        confidence: with what probability all intervals ever read hold the rate.
    """
    successes = images - failures
    mixed = _log_beta(failures + _PRIOR, successes + _PRIOR) - _log_beta(_PRIOR, _PRIOR)
    bound = mixed + math.log(1.0 - confidence)
    middle = failures / images
    low = 0.0 if failures == 0 else _crossing(failures, successes, bound, 0.0, middle)
    high = 1.0 if successes == 0 else _crossing(failures, successes, bound, 1.0, middle)
    return low, high


def _crossing(failures: int, successes: int, bound: float, outside: float, inside: float) -> float:
    """Bisect for the rate at which the likelihood (its logarithm) falls to ``bound``."""
    for _ in range(_BISECTIONS):
        middle = (outside + inside) / 2.0
        likelihood = failures * math.log(middle) + successes * math.log1p(-middle)
        if likelihood < bound:
            outside = middle
        else:
            inside = middle
    return outside


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _ends(failures: int, images: int, images_before: int) -> tuple[float, float]:
    """Return the exact ends: the low one as of ``images``, the high one as of ``images_before`` the last."""
    low = scipy.special.betaincinv(failures, images - failures + 1, _TAIL) if failures else 0.0
    more = failures + 1 if images_before == images else failures
    fewer = images_before - more + 1
    high = scipy.special.betaincinv(more, fewer, 1.0 - _TAIL) if fewer > 0 else 1.0
    return float(low), float(high)


def _estimate(rate: float | None, low: float, high: float, images: int) -> Estimate:
    if rate is None:
        return Estimate(estimate=None, low=None, high=None, n=images)
    return Estimate(estimate=rate, low=min(low, rate), high=max(high, rate), n=images)
