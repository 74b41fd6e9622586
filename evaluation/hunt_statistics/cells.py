"""Every simulated figure of bug hunts with its limit: shares of hunts, and means of estimates."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.random import Generator

from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.types import Estimate
from evaluation.error_rates.cells import Cell

from .coverage import RATES, RULES, careless, coverage, own_stop, whoever_looks
from .hunts import ALIKE, NOTHING, REQUESTED, STRONG, Winner, World, hunted
from .rare_failures import (
    WORLDS,
    covered,
    covered_by_captions,
    covered_for_two,
    estimates,
    estimates_for_two,
    fewer_by_captions,
    fewer_images,
)

_STANDARD_ERRORS = 4.0
_NORMAL = 1.96
BY_CAPTIONS = ("rate 0.001, all described", "rate 0.0001, all described")
"""Worlds in which captions tell the shares, too."""
LEAST_RATE, MOSTLY = 1.01e-4, 0.9
"""The estimate must save images where the rate is no higher, and most failures are described."""


@dataclass(frozen=True)
class Mean:
    """The mean of an estimate whose truth is known: the draws of both, and whether it should be unbiased."""

    draw: Callable[[int, Generator], tuple[Sequence[float], Sequence[float]]]
    unbiased: bool = True

    def simulate(self, replicates: int, generator: Generator) -> tuple[Estimate, bool | None]:
        """Return the mean error relative to the truth, and whether it is 0 as far as chance allows."""
        found, truths = map(np.asarray, self.draw(replicates, generator))
        errors = found / truths - 1.0
        mean, error = float(errors.mean()), float(errors.std(ddof=1)) / math.sqrt(errors.size)
        figure = Estimate(
            estimate=mean, low=mean - _NORMAL * error, high=mean + _NORMAL * error, n=int(errors.size)
        )
        return figure, abs(mean) <= _STANDARD_ERRORS * error if self.unbiased else None


def _covered(rule: str, rate: float, replicates: int, generator: Generator) -> Estimate:
    return coverage(own_stop(RULES[rule], rate, replicates, generator), rate)


def _estimates(
    rule: str, rate: float, replicates: int, generator: Generator
) -> tuple[list[float], list[float]]:
    found = [each.estimate or 0.0 for each in own_stop(RULES[rule], rate, replicates, generator)]
    return found, [rate] * replicates


def _looked(rule: str, rate: float, replicates: int, generator: Generator) -> Estimate:
    return whoever_looks(RULES[rule], rate, replicates, generator)


def _false_bugs(world: World, rule: str, replicates: int, generator: Generator) -> Estimate:
    """How often a hunt reports any bug that is none."""
    found = 0
    for _ in range(replicates):
        winners = hunted(world, REQUESTED[rule], generator)
        found += any(each.p <= 0.05 and not each.is_bug for each in winners)
    return proportion(found, replicates)


def _bugs(world: World, rule: str, replicates: int, generator: Generator) -> Estimate:
    """How often a hunt proves a bug that is one."""
    found = 0
    for _ in range(replicates):
        winners = hunted(world, REQUESTED[rule], generator)
        found += any(each.p <= 0.05 and each.is_bug for each in winners)
    return proportion(found, replicates)


def _winners(world: World, rule: str, replicates: int, generator: Generator) -> list[Winner]:
    """The first winner of each hunt that has one."""
    hunts = (hunted(world, REQUESTED[rule], generator) for _ in range(replicates))
    return [found[0] for found in hunts if found]


def _held_out_covers(world: World, rule: str, replicates: int, generator: Generator) -> Estimate:
    won = _winners(world, rule, replicates, generator)
    held = [
        each.held_out.low is not None
        and each.held_out.high is not None
        and each.held_out.low <= each.truth <= each.held_out.high
        for each in won
    ]
    return proportion(sum(held), len(held))


def _chosen(
    world: World, rule: str, discovery: bool, replicates: int, generator: Generator
) -> tuple[list[float], list[float]]:
    won = _winners(world, rule, replicates, generator)
    found = [each.discovery if discovery else each.held_out.estimate or 0.0 for each in won]
    return found, [each.truth for each in won]


def _images(
    world: World, rule: str, replicates: int, generator: Generator
) -> tuple[list[float], list[float]]:
    """Held-out images of a winner, beside those of the rule ``fixed``."""
    won = _winners(world, rule, replicates, generator)
    return [float(each.images) for each in won], [96.0] * len(won)


SHARES: dict[str, Cell] = {
    **{
        f"interval holds, {rule}, rate {rate:g}": Cell(
            "own stop", partial(_covered, rule, rate), 0.95, most=False
        )
        for rule in RULES
        for rate in RATES
    },
    **{
        f"interval holds at every look, sequential, rate {rate:g}": Cell(
            "looks", partial(_looked, "sequential", rate), 0.95, most=False
        )
        for rate in RATES
    },
    **{
        # Two statements of 95 % each: one for whoever stops early, one for the rule's own end.
        f"interval holds at every look and at the end, {rule}, rate {rate:g}": Cell(
            "looks", partial(_looked, rule, rate), 0.90, most=False
        )
        for rule in ("fixed", "inverse")
        for rate in RATES
    },
    **{
        # The contrast: no limit of ours.
        f"interval of a fixed number read at every look, rate {rate:g}": Cell(
            "contrast", partial(careless, rate), 0.0, most=False
        )
        for rate in RATES
    },
    **{
        f"a false bug, {rule}, {name}": Cell("family", partial(_false_bugs, world, rule), 0.05, most=True)
        for name, world in NOTHING.items()
        for rule in REQUESTED
    },
    **{
        f"the bug is proven, {rule}": Cell("power", partial(_bugs, STRONG, rule), 0.9, most=False)
        for rule in REQUESTED
    },
    **{
        f"interval of a rare rate holds, {name}, {'descriptions alone' if described else 'the whole'}": Cell(
            "rare", partial(covered, world, described), 0.95, most=False
        )
        for name, world in WORLDS.items()
        for described in (False, True)
    },
    **{
        f"held-out interval of a winner holds, {rule}": Cell(
            "held out", partial(_held_out_covers, ALIKE, rule), 0.95, most=False
        )
        for rule in REQUESTED
    },
    **{
        f"interval of a rare rate holds, {name}, two classifiers": Cell(
            "rare", partial(covered_for_two, world), 0.95, most=False
        )
        for name, world in WORLDS.items()
    },
    **{
        # The contrast: no limit of ours.
        f"interval of a rare rate that takes shares from captions for known, {name}": Cell(
            "contrast of captions", partial(covered_by_captions, WORLDS[name]), 0.0, most=False
        )
        for name in BY_CAPTIONS
    },
}
"""Shares of simulated hunts, each with its limit."""

MEANS: dict[str, Mean] = {
    **{
        f"rate, {rule}, {rate:g}": Mean(partial(_estimates, rule, rate), unbiased=rule != "sequential")
        for rule in RULES
        for rate in RATES
    },
    **{
        f"discovery rate of a winner, {rule}": Mean(partial(_chosen, ALIKE, rule, True), unbiased=False)
        for rule in REQUESTED
    },
    **{
        f"held-out rate of a winner, {rule}": Mean(
            partial(_chosen, ALIKE, rule, False), unbiased=rule != "sequential"
        )
        for rule in REQUESTED
    },
    **{f"rare rate, {name}": Mean(partial(estimates, world)) for name, world in WORLDS.items()},
    **{
        f"held-out images of a winner, {rule}": Mean(partial(_images, STRONG, rule), unbiased=False)
        for rule in ("inverse", "sequential")
    },
    **{
        f"rare rate, {name}, two classifiers": Mean(partial(estimates_for_two, world))
        for name, world in WORLDS.items()
    },
}
"""Means of estimates relative to their truth."""


@dataclass(frozen=True)
class Gain:
    """How many times as many images naive sampling takes, and the least that it must be, if anything."""

    world: str
    least: float | None
    by_captions: bool = False

    def simulate(self, replicates: int, generator: Generator) -> tuple[float, bool | None]:
        """Return it, and whether it is above the least."""
        fewer = fewer_by_captions if self.by_captions else fewer_images
        times = fewer(WORLDS[self.world], replicates, generator)
        return times, None if self.least is None else times >= self.least


LEAST_GAIN = 10.0
GAINS: dict[str, Gain] = {
    name: Gain(name, LEAST_GAIN if world.truth <= LEAST_RATE and world.described >= MOSTLY else None)
    for name, world in WORLDS.items()
} | {f"{name}, shares from captions": Gain(name, None, by_captions=True) for name in BY_CAPTIONS}
"""Images that the weighted estimate saves, by world."""
