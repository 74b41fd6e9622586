"""Simulated shift benchmarks: slopes, impacts and the flag "confounded" where the truth is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from scipy import special

from counterpose_core.shift_benchmark.answers import ModelAnswers
from counterpose_core.shift_benchmark.benchmark import ShiftRow, shift_benchmark
from counterpose_core.shift_benchmark.generator_gap import RealAnswers
from counterpose_core.shift_benchmark.shifts import BASE
from counterpose_core.statistics.bootstrap import Floats, proportion
from counterpose_core.types import Estimate

_DRAWS = 500
_IMAGE = 0.8
_ALIKE = 0.95


@dataclass(frozen=True)
class Zoo:
    """Models on fixed classes: the probit of each accuracy by class (classes, models), base and shifted.

    All models find the same images hard: an image's difficulty has the standard deviation 0.8 on the probit
    scale, and the rest of the noise is each model's own.
    """

    base: Floats
    shifted: Floats

    @classmethod
    def draw(
        cls, classes: int, models: int, spread: float, generator: Generator, *, cost: float = 0.6
    ) -> Zoo:
        """Draw models whose ability on the probit scale has a standard deviation of ``spread``."""
        ability = generator.normal(1.0, spread, size=models)
        hardness = generator.normal(0.0, 0.4, size=(classes, 1))
        shifted = 0.9 * ability - cost + generator.normal(0.0, 0.1 * spread, size=models)
        return cls(ability - hardness, shifted - hardness)

    @property
    def accuracies(self) -> tuple[Floats, Floats]:
        """The true mean accuracy of each model (models,), base and shifted."""
        return special.ndtr(self.base).mean(axis=0), special.ndtr(self.shifted).mean(axis=0)

    @property
    def slope(self) -> float:
        """The true slope of shifted over base accuracies."""
        x, y = self.accuracies
        return float(np.polyfit(x, y, 1)[0])

    def answers(
        self, images: int, generator: Generator, *, block: int = 1, grouped: bool = True
    ) -> ModelAnswers:
        """Draw the answers to base and shifted images of the same seeds.

        In blocks of several, images are near-duplicates; the answers name their groups if ``grouped``.
        """
        classes, models = self.base.shape
        seeds = _IMAGE * _alike(generator, (classes, images, 1), block)
        odds = np.stack([self.base, self.shifted])[:, :, None, :]
        rest = _alike(generator, (2, classes, images, models), block)
        first = np.broadcast_to(np.arange(images) // block * block, (2, classes, images))
        values = odds * np.sqrt(1.0 + _IMAGE**2) + seeds + rest > 0.0
        kept = np.ones(values.shape[:3], dtype=np.bool_)
        return ModelAnswers(
            tuple(f"model-{index}" for index in range(models)),
            (BASE, "shift"),
            tuple(f"class-{index}" for index in range(classes)),
            values, kept, kept, first if block > 1 and grouped else None,
        )  # fmt: skip

    def real(self, images: int, generator: Generator, gap: float = 0.0) -> RealAnswers:
        """Draw the answers to real images, easier by ``gap`` on the probit scale than base images."""
        classes, models = self.base.shape
        seeds = generator.normal(0.0, _IMAGE, size=(classes, images, 1))
        rest = generator.normal(size=(classes, images, models))
        values = (self.base + gap)[:, None, :] * np.sqrt(1.0 + _IMAGE**2) + seeds + rest > 0.0
        return RealAnswers(values, np.ones(values.shape[:2], dtype=np.bool_))


def _alike(generator: Generator, shape: tuple[int, ...], block: int) -> Floats:
    """Standard normal numbers (..., images, rest), with a correlation of 0.95 within blocks of images."""
    own = generator.normal(size=shape)
    if block == 1:
        return own
    *outer, images, rest = shape
    common = np.repeat(generator.normal(size=(*outer, -(-images // block), rest)), block, axis=-2)
    return np.asarray(np.sqrt(_ALIKE) * common[..., :images, :] + np.sqrt(1.0 - _ALIKE) * own)


def impact_coverage(
    classes: int, images: int, replicates: int, generator: Generator, *, block: int, grouped: bool = True
) -> Estimate:
    """How often the interval of a shift's impact holds it where images are near-duplicates (D10)."""
    held = 0
    for _ in range(replicates):
        zoo = Zoo.draw(classes, 12, 0.35, generator)
        answers = zoo.answers(images, generator, block=block, grouped=grouped)
        effect = shift_benchmark(answers, generator, draws=_DRAWS).rows[0].effect
        assert effect is not None
        assert effect.impact.low is not None
        assert effect.impact.high is not None
        base, shifted = zoo.accuracies
        held += effect.impact.low <= float((base - shifted).mean()) <= effect.impact.high
    return proportion(held, replicates)


def _row(zoo: Zoo, images: int, generator: Generator, real: RealAnswers | None = None) -> ShiftRow:
    answers = zoo.answers(images, generator)
    return shift_benchmark(answers, generator, real=real, draws=_DRAWS).rows[0]


@dataclass(frozen=True)
class SlopeRates:
    """How often the interval of a slope holds it, the median error, and how often there is no slope.

    ``misleading`` is the share of all runs that state an interval without the true slope.
    """

    coverage: Estimate
    median_error: float | None
    refused: Estimate
    misleading: Estimate


def slope_rates(
    classes: int, images: int, models: int, spread: float, replicates: int, generator: Generator
) -> SlopeRates:
    """The slopes of zoos whose abilities differ by ``spread`` (D9)."""
    held, errors = [], []
    for _ in range(replicates):
        zoo = Zoo.draw(classes, models, spread, generator)
        effect = _row(zoo, images, generator).effect
        assert effect is not None
        found, truth = effect.slope.slope, zoo.slope
        if found.estimate is not None and found.low is not None and found.high is not None:
            held.append(found.low <= truth <= found.high)
            errors.append(found.estimate - truth)
    return SlopeRates(
        proportion(sum(held), len(held)),
        float(np.median(errors)) if errors else None,
        proportion(replicates - len(held), replicates),
        proportion(len(held) - sum(held), replicates),
    )


def confounded(
    classes: int, images: int, *, cost: float, gap: float, replicates: int, generator: Generator
) -> dict[str, Estimate]:
    """How often a shift is called confounded or not, and how often neither can be told (D8)."""
    states = []
    for _ in range(replicates):
        zoo = Zoo.draw(classes, 12, 0.35, generator, cost=cost)
        if cost == 0.0:
            zoo = Zoo(zoo.base, zoo.base)
        row = _row(zoo, images, generator, zoo.real(images, generator, gap))
        assert row.gap is not None
        states.append(row.gap.confounding)
    return {
        name: proportion(states.count(name), replicates)
        for name in ("confounded", "not-confounded", "cannot-tell")
    }
