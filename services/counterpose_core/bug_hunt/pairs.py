"""Whether a description fails more often than its baseline, by pairs, however the drawing was stopped."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import scipy

from counterpose_core.bug_hunt.comparison import LEVEL, POWER, FailureCounts, RateRatio
from counterpose_core.bug_hunt.sampling import InverseSampling, Sampling, confidence_sequence
from counterpose_core.statistics.bootstrap import CONFIDENCE

_TAIL = 0.025
_LOG_TWO = math.log(2.0)


@dataclass(frozen=True)
class DiscordantPairs:
    """Pairs of one image of the description and one of the baseline from the same noise.

    Attributes:
        described: pairs of which only the description's image fails.
        baseline: pairs of which only the baseline's image fails.
        pairs: all pairs.
    """

    described: int
    baseline: int
    pairs: int

    @classmethod
    def of(cls, described: Mapping[int, bool], baseline: Mapping[int, bool]) -> DiscordantPairs:
        """Pair failures by the place of their noise; a place that only one side has is left out."""
        both = [(described[place], baseline[place]) for place in described if place in baseline]
        return cls(both.count((True, False)), both.count((False, True)), len(both))

    @property
    def p(self) -> float:
        """p of "the description fails no more often", valid at any stop (1 / the e-value)."""
        return min(1.0, math.exp(-min(log_e_value(self.described, self.baseline), 700.0)))

    def is_futile(self, most: int, level: float = LEVEL) -> bool:
        """Whether ``most`` pairs prove nothing at ``level``, even at the best plausible rates."""
        left = most - self.pairs
        if left <= 0 or self.pairs == 0:
            return left <= 0
        best = scipy.special.betaincinv(self.described + 1, max(self.pairs - self.described, 1), 1.0 - _TAIL)
        worst = scipy.special.betaincinv(self.baseline, self.pairs - self.baseline + 1, _TAIL)
        least = 0.0 if self.baseline == 0 else float(worst)
        reached = log_e_value(self.described + left * float(best), self.baseline + left * least)
        return reached < -math.log(level)


def is_settled(rule: Sampling, described: FailureCounts, pairs: DiscordantPairs, *, tests: int) -> bool:
    """Whether a description needs no more held-out images.

    Args:
        rule: the rule of held-out images, which says how many there are at most.
        described: what was seen of the description.
        pairs: the same beside the label alone.
        tests: how many descriptions are tested together.
    """
    if isinstance(rule, InverseSampling):
        # Not where it is futile: the rate that is left would be too low by three per cent.
        return rule.is_decided(described.failures, described.images)
    return pairs.p * tests <= LEVEL or pairs.is_futile(rule.most, LEVEL / tests)


def detectable_by_pairs(images: int, tests: int) -> float | None:
    """Return the smallest failure rate that pairs prove with probability 0.8 where the baseline never fails.

    None where even a description of which every image fails cannot be proven. Until so many images are drawn;
    stopping earlier where it is proven changes nothing.

    Args:
        images: pairs, at most.
        tests: how many descriptions are tested together.
    """
    least = next((k for k in range(images + 1) if log_e_value(k, 0) >= math.log(tests / LEVEL)), None)
    return None if least is None else float(scipy.special.betaincinv(least, images - least + 1, POWER))


def ratio_at_any_stop(described: FailureCounts, baseline: FailureCounts) -> RateRatio:
    """Return the ratio of two failure rates with a 95 % interval that holds however the drawing was stopped.

    Its ends are those of two confidence sequences, each of half the error.
    """
    if not described.images or not baseline.images:
        return RateRatio(None, 0.0, None)
    confidence = 1.0 - (1.0 - CONFIDENCE) / 2.0
    ours, theirs = (
        confidence_sequence(each.failures, each.images, confidence) for each in (described, baseline)
    )
    high = ours[1] / theirs[0] if baseline.failures else None
    rates = [each.failures / each.images for each in (described, baseline)]
    return RateRatio(rates[0] / rates[1] if baseline.failures else None, ours[0] / theirs[1], high)


def log_e_value(described: float, baseline: float) -> float:
    """Return the logarithm of the evidence that discordant pairs are the description's in more than half.

    A gambler who bets on the description with every stake between even and all, evenly mixed: its capital is
    at most 1 on average at every stop if the description fails no more often (Ville's inequality), whether
    or not the two images of a pair resemble each other, because ``P(only d fails) <= P(only b fails)``
    follows from the rates alone.

    Args:
        described: pairs of which only the description's image fails, at least 0.
        baseline: pairs of which only the baseline's image fails, at least 0.
    """
    above_half = float(scipy.special.betaincc(described + 1.0, baseline + 1.0, 0.5))
    if above_half == 0.0:
        return -math.inf
    mixed = math.lgamma(described + 1) + math.lgamma(baseline + 1) - math.lgamma(described + baseline + 2)
    return mixed + math.log(above_half) + (described + baseline + 1.0) * _LOG_TWO
