"""How many images to draw for a failure rate, and what the rate is then: three rules with exact intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Literal

import scipy
from pydantic import BaseModel, ConfigDict, Field

from counterpose_core.bug_hunt.comparison import FailureCounts
from counterpose_core.contract.sampling_rules import PAPER_FAILURES, FixedNumber, SamplingRule, UntilFailures
from counterpose_core.statistics.bootstrap import CONFIDENCE
from counterpose_core.types import Estimate

FEWEST_FAILURES = 2
"""Without so many failures their captions have nothing in common, so that no description follows."""
LEAST_STEP = 16
"""Images that are drawn at least between two looks: fewer would leave most workers idle."""

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

    @property
    def most(self) -> int:
        """The most images that it draws."""
        return self.images

    def rate(self, failures: int, images: int, *, ended: bool = True) -> Estimate:
        """Return the failure rate with its exact 95 % interval (Clopper and Pearson 1934).

        Not Wilson's, as for other shares: at one failure in 1,000 it holds 500 images' rate in 91 %.

        Args:
            failures: images that failed.
            images: images that count.
            ended: False if the drawing was stopped before the rule's end, or goes on.
        """
        if not ended:
            return _stopped(failures, images)
        low, high = _ends(failures, images, images) if images else (0.0, 1.0)
        return _estimate(failures / images if images else None, low, high, images)


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

    @property
    def most(self) -> int:
        """The most images that it draws."""
        return self.most_images

    def rate(self, failures: int, images: int, *, ended: bool = True) -> Estimate:
        """Return the failure rate with its exact 95 % interval, as of the image that decided.

        Args:
            failures: images that failed.
            images: images that count, up to the failure that decided if so many failed.
            ended: False if the drawing was stopped before the rule's end, or goes on.
        """
        if failures < self.failures:
            if not ended:
                return _stopped(failures, images)
            low, high = _ends(failures, images, images)
            return _estimate(failures / images if images else None, low, high, images)
        # Up to n images at least r failures came; up to n - 1 at most r - 1.
        low, high = _ends(failures, images, images - 1)
        return _estimate((failures - 1) / max(images - 1, 1), low, high, images)


class SequentialSampling(_Rule):
    """Draw until the rate is known to lie on one side of ``threshold``, and at most ``most_images``.

    The interval holds however one looks and whenever one stops (a confidence sequence), so that a hunt may be
    looked at while it goes, and stopped. Above the threshold it goes on to ``least_failures``, where somebody
    wants to see them.
    """

    name: Literal["sequential"] = "sequential"
    threshold: float = Field(ge=0.0, lt=1.0)
    most_images: int = Field(ge=1)
    least_failures: int = Field(default=0, ge=0)

    def is_decided(self, failures: int, images: int) -> bool:
        """Whether no more images are needed."""
        if images >= self.most_images:
            return True
        rate = self.rate(failures, images)
        if rate.low is None or rate.high is None:
            return False
        is_above = rate.low > self.threshold and failures >= self.least_failures
        return is_above or rate.high < self.threshold

    @property
    def most(self) -> int:
        """The most images that it draws."""
        return self.most_images

    def rate(self, failures: int, images: int, *, ended: bool = True) -> Estimate:
        """Return the failure rate with its 95 % interval, which holds at every stop, ``ended`` or not."""
        return _stopped(failures, images)


Sampling = Annotated[FixedSampling | InverseSampling | SequentialSampling, Field(discriminator="name")]


def under_budget(rule: SamplingRule, images: int) -> Sampling:
    """Return a request's rule with the most images that its budget gives."""
    if isinstance(rule, FixedNumber):
        return FixedSampling(images=images)
    if isinstance(rule, UntilFailures):
        return InverseSampling(failures=rule.failures, most_images=images)
    return SequentialSampling(threshold=rule.threshold, most_images=images, least_failures=PAPER_FAILURES)


def until_decided(rule: Sampling, failed: Sequence[bool]) -> FailureCounts:
    """Count images in the order of their drawing up to the one that decided.

    Several classifiers share images, which are drawn until the rule is decided for all: what one classifier
    said after its own decision would bias its rate.
    """
    if isinstance(rule, InverseSampling):
        places = [place for place, flag in enumerate(failed, start=1) if flag]
        if len(places) >= rule.failures:
            return FailureCounts(rule.failures, places[rule.failures - 1])
    return FailureCounts(sum(failed), len(failed))


def further_images(rule: Sampling, drawn: int, seen: Sequence[FailureCounts]) -> int:
    """Return how many images to draw next, 0 if the rule is decided for all who share them.

    Args:
        rule: the rule.
        drawn: images so far, of which some may count for nobody.
        seen: what each classifier made of those that count.
    """
    if isinstance(rule, FixedSampling):
        return max(0, rule.images - drawn)
    left = rule.most - drawn
    undecided = [each for each in seen if not rule.is_decided(each.failures, each.images)]
    if left <= 0 or not undecided or all(_is_futile(each, left) for each in undecided):
        return 0
    needed = max(_expected_images(rule, each) for each in undecided)
    # Never more than doubled: the rate that the expectation rests on may be far off.
    return min(left, max(LEAST_STEP, min(needed, drawn)))


def _expected_images(rule: InverseSampling | SequentialSampling, seen: FailureCounts) -> int:
    if isinstance(rule, SequentialSampling):
        return max(seen.images, 1)
    rate = (seen.failures + _PRIOR) / (seen.images + 1)
    return math.ceil((rule.failures - seen.failures) / rate)


def _is_futile(seen: FailureCounts, left: int) -> bool:
    """Whether the images left bring too few failures to describe, even at the highest plausible rate."""
    if seen.images == 0 or seen.failures >= FEWEST_FAILURES:
        return False
    _, high = confidence_sequence(seen.failures, seen.images)
    return seen.failures + left * high < FEWEST_FAILURES


def _stopped(failures: int, images: int) -> Estimate:
    # Whoever stops may have looked first, which only a confidence sequence allows.
    if images == 0:
        return _estimate(None, 0.0, 1.0, 0)
    return _estimate(failures / images, *confidence_sequence(failures, images), images)


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
