"""Rare failures in a world of known rates: how many fewer images the weighted estimate takes.

And why a hunt takes shares that are stated: shares that captions of the label's own images estimate are no
better known than the rate itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from counterpose_core.bug_hunt.comparison import FailureCounts
from counterpose_core.bug_hunt.rare import Stratum, allocate, divide, rare_rate
from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.types import Estimate
from evaluation.reference.plain_figures import variance_of

IMAGES, PILOT = 2_000, 32
"""Images that are divided, and of each stratum's pilot, which is paid too."""
FAILS = 0.5
COUNTS = 0.95
"""Share of images that count as failure or success; the others do not show their label, or were not made."""
CAPTIONED = 2_000
"""The label's own images whose captions tell the shares, where no shares are stated."""


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

    def shared_strata(self, generator: Generator) -> list[Stratum]:
        """Return what a hunt of two classifiers sees of the first, after a pilot; some images do not count.

        The second one fails in the circumstances in which the first one does not, and seldom in others.
        """
        others = (*(1.0 - rate for rate in self.rates[:-1]), self.rates[-1])
        pilots = [
            [FailureCounts(int(generator.binomial(PILOT, rate)), PILOT) for rate in rates]
            for rates in (self.rates, others)
        ]
        divided = divide(self.shares, pilots, IMAGES)
        images = np.maximum(1, generator.binomial(divided, COUNTS))
        failures = generator.binomial(images, self.rates)
        return [
            Stratum(share, int(count), int(number))
            for share, count, number in zip(self.shares, failures, images, strict=True)
        ]

    def captioned_strata(self, generator: Generator) -> list[Stratum]:
        """Return what a hunt sees that knows shares from captions of the label's own images alone."""
        named = generator.multinomial(CAPTIONED, self.shares)
        return [
            Stratum(int(count) / CAPTIONED, each.failures, each.images)
            for count, each in zip(named, self.strata(generator), strict=True)
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


def covered_for_two(world: RareWorld, replicates: int, generator: Generator) -> Estimate:
    """Return how often the interval holds the rate of the whole where two classifiers share the images."""
    return _held(world, [rare_rate(world.shared_strata(generator)) for _ in range(replicates)])


def covered_by_captions(world: RareWorld, replicates: int, generator: Generator) -> Estimate:
    """Return how often the interval does that takes shares from captions for known: the contrast."""
    return _held(world, [rare_rate(world.captioned_strata(generator)) for _ in range(replicates)])


def _held(world: RareWorld, found: list[Estimate]) -> Estimate:
    held = sum(
        each.low is not None and each.high is not None and each.low <= world.truth <= each.high
        for each in found
    )
    return proportion(held, len(found))


def estimates_for_two(
    world: RareWorld, replicates: int, generator: Generator
) -> tuple[list[float], list[float]]:
    """Return the estimates of so many hunts of two classifiers, and their truth."""
    found = [rare_rate(world.shared_strata(generator)).estimate or 0.0 for _ in range(replicates)]
    return found, [world.truth] * replicates


def fewer_by_captions(world: RareWorld, replicates: int, generator: Generator) -> float:
    """Return how many times as many images naive sampling takes where captions tell the shares.

    By the variance that each hunt's division of its images has; captioned images are paid, too. It hardly
    exceeds 1 / the rate of the circumstances: the share of 1 in 1,000 is known as well as a rate of it.
    """
    shares, rates = np.array(world.shares), np.array(world.rates)
    squares = shares**2 + shares * (1.0 - shares) / CAPTIONED
    of_shares = float(shares @ rates**2 - world.truth**2) / CAPTIONED
    divided = [[each.images for each in world.strata(generator)] for _ in range(replicates)]
    of_rates = np.mean([(squares * rates * (1.0 - rates) / images).sum() for images in divided])
    paid = world.paid + CAPTIONED
    return world.truth * (1.0 - world.truth) / (of_shares + float(of_rates)) / paid


def fewer_images(world: RareWorld, replicates: int, generator: Generator) -> float:
    """Return how many times as many images naive sampling takes for the same variance, the pilot's counted.

    By the variance that each hunt's division of its images has, since failures in the rest are too rare to
    be seen in the estimates of any number of hunts.
    """
    divided = [[each.images for each in world.strata(generator)] for _ in range(replicates)]
    variance = float(np.mean([variance_of(world.shares, world.rates, images) for images in divided]))
    return world.truth * (1.0 - world.truth) / variance / world.paid
