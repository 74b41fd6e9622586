"""Hunts on simulated failures: how often a bug is reported that is none, and what choosing does to rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from counterpose_core.bug_hunt.budget import LEAST_ROUND, ROUNDS, Standing, promising, round_size
from counterpose_core.bug_hunt.comparison import LEVEL, FailureCounts, above_baseline
from counterpose_core.bug_hunt.pairs import DiscordantPairs, is_settled
from counterpose_core.bug_hunt.sampling import FixedSampling, Sampling, under_budget, until_decided
from counterpose_core.contract.sampling_rules import FixedNumber, SamplingRule, UntilDecided, UntilFailures
from counterpose_core.statistics.p_values import holm
from counterpose_core.types import Estimate

BASELINE, DESCRIBED, HELD_OUT, WINNERS, FIRST = 200, 400, 96, 2, 32
"""Images of a label alone, of its descriptions, of a prompt held out, winners, and images of a first look."""

REQUESTED: dict[str, SamplingRule] = {
    "fixed": FixedNumber(),
    "inverse": UntilFailures(),
    "sequential": UntilDecided(),
}


@dataclass(frozen=True)
class World:
    """What really fails: the rate of the labels alone, and of their descriptions.

    ``common`` is the share of places at which all prompts' images fail by the same draw: images of one noise
    resemble each other. With ``all_win`` nothing is chosen: every description is tested on held-out images.
    """

    baseline: float
    described: tuple[float, ...]
    labels: int = 1
    common: float = 0.0
    all_win: bool = False


@dataclass(frozen=True)
class Winner:
    """A description that was chosen, and what was seen of it."""

    truth: float
    is_bug: bool
    discovery: float
    held_out: Estimate
    p: float
    images: int


def hunted(world: World, rule: SamplingRule, generator: Generator) -> list[Winner]:
    """Return the winners of one hunt, with p after Holm's correction."""
    held_out = under_budget(rule, HELD_OUT)
    chosen = [each for _ in range(world.labels) for each in [_discovered(world, generator)]]
    tests = sum(map(len, chosen))
    found: list[Winner] = []
    for winners in chosen:
        found += _measured(world, winners, held_out, tests, generator)
    adjusted = holm([each.p for each in found])
    return [
        Winner(each.truth, each.is_bug, each.discovery, each.held_out, p, each.images)
        for each, p in zip(found, adjusted, strict=True)
    ]


def _discovered(world: World, generator: Generator) -> list[tuple[float, float]]:
    """The true and the seen rate of the winners of one label, after rounds of halving."""
    if world.all_win:
        return [(rate, rate) for rate in world.described]
    baseline = FailureCounts(int(generator.binomial(BASELINE, world.baseline)), BASELINE)
    failures, images = np.zeros(len(world.described), int), np.zeros(len(world.described), int)
    left, spent = list(range(len(world.described))), 0
    for turn in range(ROUNDS):
        size = round_size(DESCRIBED - spent, len(left), ROUNDS - turn)
        if size < LEAST_ROUND:
            break
        for number in left:
            failures[number] += generator.binomial(size, world.described[number])
            images[number] += size
            spent += size
        standing = [_standing(number, failures, images, baseline) for number in left]
        left = promising(standing, max(1, len(left) // 2))
    seen = [_standing(number, failures, images, baseline) for number in range(len(world.described))]
    won = promising([each for each in seen if each.p <= LEVEL], WINNERS)
    return [(world.described[number], failures[number] / images[number]) for number in won]


def _standing(
    number: int, failures: NDArray[np.int64], images: NDArray[np.int64], baseline: FailureCounts
) -> Standing:
    return Standing(number, FailureCounts(int(failures[number]), int(images[number])), baseline)


def _measured(
    world: World,
    winners: Sequence[tuple[float, float]],
    rule: Sampling,
    tests: int,
    generator: Generator,
) -> list[Winner]:
    """Held-out images of a label's winners and of the label alone, in steps as long as some are needed."""
    draws = generator.random((1 + len(winners), HELD_OUT))
    # Where all prompts share a draw, the images of one noise fail together.
    draws = np.where(generator.random(HELD_OUT) < world.common, draws[0], draws)
    alone = draws[0] < world.baseline
    found: list[Winner] = []
    for (truth, discovery), own in zip(winners, draws[1:], strict=True):
        failed = own < truth
        images = HELD_OUT if isinstance(rule, FixedSampling) else FIRST
        while images < HELD_OUT and not _settled(rule, failed[:images], alone[:images], tests):
            images = min(HELD_OUT, 2 * images)
        seen = failed[:images]
        if isinstance(rule, FixedSampling):
            p = above_baseline(_counts(seen), _counts(alone[:images]))
        else:
            p = _pairs(seen, alone[:images]).p
        counts = until_decided(rule, seen.tolist())
        rate = rule.rate(counts.failures, counts.images, ended=images == HELD_OUT)
        found.append(Winner(truth, truth > world.baseline, discovery, rate, p, images))
    return found


def _settled(rule: Sampling, failed: NDArray[np.bool_], alone: NDArray[np.bool_], tests: int) -> bool:
    return is_settled(rule, _counts(failed), _pairs(failed, alone), tests=tests)


def _counts(failed: NDArray[np.bool_]) -> FailureCounts:
    return FailureCounts(int(failed.sum()), failed.size)


def _pairs(failed: NDArray[np.bool_], alone: NDArray[np.bool_]) -> DiscordantPairs:
    return DiscordantPairs(int((failed & ~alone).sum()), int((alone & ~failed).sum()), failed.size)


NULL = (0.02, 0.1, 0.3)
NOTHING: dict[str, World] = (
    {
        f"no bug, label fails {rate:.0%}, {'noise shared' if common else 'noise apart'}": World(
            rate, (rate,) * 8, common=common
        )
        for rate in NULL
        for common in (0.0, 0.5)
    }
    | {
        f"no bug, label fails {rate:.0%}, all eight tested": World(rate, (rate,) * 8, all_win=True)
        for rate in NULL
    }
    | {
        "no bug, four labels": World(0.1, (0.1,) * 8, labels=4),
        "two bugs among eight": World(0.1, (0.5, 0.5) + (0.1,) * 6),
    }
)
"""Worlds in which most descriptions say nothing."""

ALIKE = World(0.1, (0.25,) * 8)
"""Eight descriptions that fail equally often: the best of them was lucky."""
STRONG = World(0.05, (0.7,) + (0.05,) * 7)
"""One bug as the miniature's classifiers have them."""
