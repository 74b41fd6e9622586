"""How many more images would decide a finding: simulated futures, each judged by the test that will judge it.

A future draws its world from the pairs so far and few imagined ones (a Dirichlet process, as in the Bayesian
bootstrap of Rubin 1981), and then the pairs that a proof would add. The imagined pairs lose less than the
screen saw: it chose the change because it seemed to hurt, so the true loss is smaller.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from counterpose_core.statistics.bootstrap import Floats
from counterpose_core.stress_test.confirmation import MARGIN, bets
from counterpose_core.stress_test.proof import Evidence
from counterpose_core.stress_test.screening import LEAST_LOSS, LEVEL

FUTURES = 500
"""Futures of a forecast: the share of them that decide has a standard error of 0.02."""

HORIZON = 200
"""Images beyond which nothing is forecast."""

IMAGES_OF_A_PROOF = 100
"""Most images of one proof; the bets of the next one start anew."""

_NO_LOSS, _LOSS = np.array([-0.1, 0.0, 0.1]), np.array([0.5, 0.75, 1.0])
"""Imagined losses of images that the change does not harm, and of images that it does."""

_IMAGINED = 1.0
"""The pairs that the imagined ones count as together: with more, few real ones are believed too little."""

_BELIEVED = 0.8
"""The share of the screened loss that the imagined pairs have."""

_LEAST_COUNT = 1e-6
"""A Dirichlet distribution takes no zeros."""

_HALF = 0.5


@dataclass(frozen=True)
class Supply:
    """What the next proofs can draw on.

    ``images`` that are left, of which ``kept`` of ``planned`` so far gave a pair; ``screened`` is the mean
    loss that the screen saw.
    """

    images: int
    planned: int
    kept: int
    screened: float


@dataclass(frozen=True)
class Forecast:
    """What so many further images would do: ``shares`` of the futures that are decided after each (n,)."""

    shares: Floats
    decided: bool = False

    @property
    def needed(self) -> int | None:
        """The images that decide half of the futures: 0 if it is decided, None if all that are left fail."""
        return 0 if self.decided else _reached(self.shares)

    def chance(self, images: int) -> float | None:
        """The share of futures that so many images, or all that are left, decide; None without futures."""
        number = min(images, self.shares.size)
        return float(self.shares[number - 1]) if number else None


def forecast_proof(evidence: Evidence, supply: Supply, generator: Generator) -> Forecast:
    """Simulate what further images would do for a finding.

    Args:
        evidence: all pairs so far, without those of the screen.
        supply: what is left to draw on; `HORIZON` at most is looked at.
        generator: draws the futures.
    """
    decided = evidence.proven or evidence.absent
    number = 0 if decided else min(supply.images, HORIZON)
    if number < 1:
        return Forecast(np.zeros(0), decided)
    losses = _futures(evidence, supply, number, generator)
    return Forecast(_decided(evidence, losses, _kept(supply, number, generator)))


def least_images(evidence: Evidence) -> int:
    """Return the number of further images without which nothing can be decided, at least 1.

    With so many it is decided if each loses everything and gives a pair, or each nothing. As
    `screening.least_pairs` for the test of a run.
    """
    best = np.stack([np.ones(HORIZON), np.zeros(HORIZON)])
    shares = _decided(replace(evidence, broad=True), best, np.ones_like(best, dtype=np.bool_))
    return int(np.argmax(shares > 0.0)) + 1 if shares.any() else HORIZON


def _reached(share: Floats) -> int | None:
    """The images at which the share of decided futures reaches half, or one fewer if that is nearer to half.

    The share jumps by what one image adds: where it reaches half, it is mostly more.
    """
    enough = np.flatnonzero(share >= _HALF)
    if not enough.size:
        return None
    at = int(enough[0])
    is_nearer = at > 0 and _HALF - share[at - 1] < share[at] - _HALF
    return at if is_nearer else at + 1


def _futures(evidence: Evidence, supply: Supply, number: int, generator: Generator) -> Floats:
    """The losses of so many further pairs in each future (futures, number)."""
    losses = np.concatenate([evidence.losses, _NO_LOSS, _LOSS])
    harmed = float(np.clip(_BELIEVED * supply.screened / _LOSS.mean(), 0.0, 1.0))
    imagined = _IMAGINED * np.repeat([(1.0 - harmed) / _NO_LOSS.size, harmed / _LOSS.size], _LOSS.size)
    counts = np.concatenate([np.ones(evidence.losses.size), np.maximum(imagined, _LEAST_COUNT)])
    reached = generator.dirichlet(counts, FUTURES).cumsum(axis=1)
    reached[:, -1] = 1.0
    # One search for all futures: each has a unit of the line to itself.
    future = np.arange(FUTURES)[:, np.newaxis]
    wanted = generator.random((FUTURES, number)) + future
    at = np.searchsorted((reached + future).ravel(), wanted) - future * losses.size
    return np.asarray(losses[np.clip(at, 0, losses.size - 1)])


def _kept(supply: Supply, number: int, generator: Generator) -> NDArray[np.bool_]:
    """Which of the further images give a pair in each future (futures, number)."""
    shares = generator.beta(supply.kept + 1, supply.planned - supply.kept + 1, (FUTURES, 1))
    return np.asarray(generator.random((FUTURES, number)) < shares)


def _decided(evidence: Evidence, losses: Floats, kept: NDArray[np.bool_]) -> Floats:
    """The share of futures that are decided after each number of images (number,)."""
    pairs = evidence.losses.size + kept.cumsum(axis=1)
    total = evidence.losses.sum() + (losses * kept).cumsum(axis=1)
    shown = math.log(evidence.e_value) + _growth(losses - evidence.least, kept) >= math.log(evidence.needed)
    proven = shown & (total >= LEAST_LOSS * pairs) & (evidence.broad or not evidence.losses.size)
    absent = math.log(evidence.absence) + _growth(MARGIN - losses, kept) >= -math.log(LEVEL)
    return np.asarray((proven | absent).mean(axis=0))


def _growth(losses: Floats, kept: NDArray[np.bool_]) -> Floats:
    """The logarithm of the evidence that the pairs up to each image add, proof after proof."""
    starts = range(IMAGES_OF_A_PROOF, losses.shape[1], IMAGES_OF_A_PROOF)
    proofs = zip(np.split(losses, starts, axis=1), np.split(kept, starts, axis=1), strict=True)
    factors = [1.0 + bets(each, counted) * each * counted for each, counted in proofs]
    return np.asarray(np.log(np.concatenate(factors, axis=1)).cumsum(axis=1))
