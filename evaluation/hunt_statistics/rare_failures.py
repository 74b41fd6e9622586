"""Rare failures in a world of known rates: how many fewer images the weighted estimate takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from faultline_core.bug_hunt.comparison import FailureCounts
from faultline_core.bug_hunt.rare import Stratum, allocate, rare_rate, variance_of
from faultline_core.statistics.bootstrap import proportion
from faultline_core.types import Estimate

IMAGES, PILOT = 2_000, 32
"""Images that are divided, and of each stratum's pilot, which is paid too."""
FAILS = 0.5


@dataclass(frozen=True)
class RareWorld:
    """Strata with their shares and failure rates; the last one is what no description says."""

    shares: tuple[float, ...]
    rates: tuple[float, ...]

    @property
    def truth(self) -> float:
        """The failure rate of the whole."""
        return float(np.dot(self.shares, self.rates))

    @property
    def described(self) -> float:
        """Which share of the failures the descriptions say."""
        return float(np.dot(self.shares[:-1], self.rates[:-1])) / self.truth

    @classmethod
    def of(cls, truth: float, described: float = 1.0) -> RareWorld:
        """A label of which four rare circumstances fail in half of their images, and the rest hardly.

        Args:
            truth: the failure rate of the whole.
            described: which share of the failures lies in the four circumstances.
        """
        parts = np.array([0.6, 0.25, 0.1, 0.05]) * truth * described / FAILS
        rest = 1.0 - float(parts.sum())
        return cls((*map(float, parts), rest), (FAILS,) * 4 + (truth * (1.0 - described) / rest,))

    def strata(self, generator: Generator) -> list[Stratum]:
        """Return what one hunt sees: after a pilot of each stratum, its part of new images."""
        pilot = [FailureCounts(int(generator.binomial(PILOT, rate)), PILOT) for rate in self.rates]
        images = allocate(self.shares, pilot, IMAGES)
        failures = generator.binomial(images, self.rates)
        return [
            Stratum(share, int(count), number)
            for share, count, number in zip(self.shares, failures, images, strict=True)
        ]

    @property
    def paid(self) -> int:
        """All images of one hunt, those of the pilot too."""
        return IMAGES + PILOT * len(self.shares)


WORLDS: dict[str, RareWorld] = {
    **{f"rate {rate:g}, all described": RareWorld.of(rate) for rate in (1e-3, 1e-4, 1e-5, 1e-6)},
    "rate 0.0001, 99 % described": RareWorld.of(1e-4, 0.99),
    "rate 0.0001, half described": RareWorld.of(1e-4, 0.5),
}


def estimates(world: RareWorld, replicates: int, generator: Generator) -> tuple[list[float], list[float]]:
    """Return the estimates of so many hunts, and their truth."""
    found = [rare_rate(world.strata(generator)).estimate or 0.0 for _ in range(replicates)]
    return found, [world.truth] * replicates


def covered(world: RareWorld, described: bool, replicates: int, generator: Generator) -> Estimate:
    """Return how often the interval holds the rate of the whole, or of what the descriptions say."""
    truth = world.truth * (world.described if described else 1.0)
    held = 0
    for _ in range(replicates):
        strata = world.strata(generator)
        found = rare_rate(strata[:-1] if described else strata)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= truth <= found.high
    return proportion(held, replicates)


def fewer_images(world: RareWorld, replicates: int, generator: Generator) -> float:
    """Return how many times as many images naive sampling takes for the same variance, the pilot's counted.

    By the variance that each hunt's division of its images has, since failures in the rest are too rare to
    be seen in the estimates of any number of hunts.
    """
    divided = [[each.images for each in world.strata(generator)] for _ in range(replicates)]
    variance = float(np.mean([variance_of(world.shares, world.rates, images) for images in divided]))
    return world.truth * (1.0 - world.truth) / variance / world.paid
