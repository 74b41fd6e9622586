"""What a run says in words: that nothing hurts, how much the worst change costs, that a test is unfit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.random import Generator

from counterpose_core.contract.stress_tests import Insight
from counterpose_core.statistics.bootstrap import Floats, proportion
from counterpose_core.statistics.bounded_mean import bounded_mean
from counterpose_core.statistics.contrast import Contrast
from counterpose_core.stress_test.screening import Candidate, Change, rank_candidates
from counterpose_core.types import Estimate
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.methods.stress_test.summary.headline import what_was_tested
from counterpose_gateway.methods.stress_test.summary.hypotheses import CHANGES, Hypotheses
from counterpose_gateway.methods.stress_test.summary.verdict import is_unfit

from .placebo_tests import contrast_of
from .world import Noise, draw_sources

_NOTHING = Estimate(estimate=None, low=None, high=None, n=0)
_SCREENED, _FRESH = 12, 25
_CHANGES, _PLANTED = 24, 12
_HARM, _HIT = 4.0, 0.4
_MANY = 40_000


def denied_harm(groups: int, sources: int, replicates: int, generator: Generator) -> Estimate:
    """How often a run denies the harm of a change that no test of so few sources could show (D4).

    Every run has several groups of sources, of which the first is hurt.
    """
    denied = 0
    for _ in range(replicates):
        contrasts = {
            str(index): contrast_of(draw_sources(sources, 1, generator, harm=_HARM * (index == 0)))
            for index in range(groups)
        }
        denied += denies(insights_of(contrasts, int(generator.integers(2**31))))
    return proportion(denied, replicates)


def insights_of(contrasts: dict[str, Contrast | None], seed: int) -> list[Insight]:
    """Return the insight of each group, as far as the sentence about them reads it."""
    hypotheses = Hypotheses(CHANGES, contrasts, LanceEstimator(seed))
    return [
        Insight(
            **dict(hypotheses.tested(name)),
            classifier="classifier",
            object_class="class",
            edit_type="object",
            removed=name,
            added="",
            delta_p=_NOTHING,
            example_item="",
            sentence="",
            n_sources=0 if found is None else found.n,
        )
        for name, found in contrasts.items()
    ]


def denies(insights: Sequence[Insight]) -> bool:
    """Whether the run says of its changes that none was shown to hurt."""
    return what_was_tested([], insights).startswith("None of")


def worst_change(
    noise: Noise, replicates: int, generator: Generator, *, planted: int = _PLANTED
) -> tuple[Estimate, float]:
    """Coverage of the loss of the change that a screen ranks first (D7), by pairs of fresh sources.

    Of 24 changes, each tried on twelve sources, ``planted`` hurt 40 % of the sources.

    Returns:
        How often the interval contains the true loss of that change, and its mean width.
    """
    found = [
        (bounded_mean(fresh, generator), truth)
        for fresh, truth in _worst(noise, planted, replicates, generator)
    ]
    width = sum((one.high or 0.0) - (one.low or 0.0) for one, _ in found) / replicates
    return proportion(sum(holds(one, truth) for one, truth in found), replicates), width


def overstated(noise: Noise, replicates: int, generator: Generator, *, planted: int = _PLANTED) -> Estimate:
    """How often the stated loss of that change exceeds its true one: half of the time by chance (D7)."""
    found = _worst(noise, planted, replicates, generator)
    return proportion(sum(float(fresh.mean()) > truth for fresh, truth in found), replicates)


def _worst(
    noise: Noise, planted: int, replicates: int, generator: Generator
) -> Iterator[tuple[Floats, float]]:
    """Yield the fresh losses of the change that ranks first, and its true loss."""
    truth = true_loss(noise, generator)
    for _ in range(replicates):
        first, seen = first_of_screen(noise, planted, generator)
        hurts = first < planted
        yield stated_losses(seen, _losses(_FRESH, noise, hurts, generator)), truth if hurts else 0.0


def stated_losses(screened: Floats, fresh: Floats) -> Floats:
    """Return the losses that a finding's figures are made of, as a run does: the fresh ones alone."""
    return fresh


def holds(found: Estimate, truth: float) -> bool:
    """Whether an interval contains the truth."""
    return found.low is not None and found.high is not None and found.low <= truth <= found.high


def true_loss(noise: Noise, generator: Generator) -> float:
    """Return the mean loss of a planted change over many sources; of another one it is 0."""
    return float(_losses(_MANY, noise, True, generator).mean())


def first_of_screen(noise: Noise, planted: int, generator: Generator) -> tuple[int, Floats]:
    """Return the number of the change that ranks first in a screen, and its losses there."""
    while True:
        seen = [_losses(_SCREENED, noise, index < planted, generator) for index in range(_CHANGES)]
        candidates = [
            Candidate(
                "classifier", Change("class", "object", f"word{index}", ""), float(found.mean()), found.size
            )
            for index, found in enumerate(seen)
            if found.size
        ]
        ranked = rank_candidates(candidates)
        if ranked:
            index = int(ranked[0].change.removed.removeprefix("word"))
            return index, seen[index]


def _losses(sources: int, noise: Noise, hurts: bool, generator: Generator) -> Floats:
    """The losses (n,) of the pairs of planned sources that were kept whole."""
    harm = _HARM if hurts else 0.0
    drawn = draw_sources(sources, 1, generator, noise=noise, harm=harm, hit=_HIT)
    losses = drawn.placebo - drawn.edits[:, 0]
    return np.asarray(losses[np.isfinite(losses)])


def called_unfit(n: int, changed: float, replicates: int, generator: Generator) -> Estimate:
    """How often a test of n sources is called unfit whose controls change a share of the answers (D11)."""
    counts = generator.binomial(n, changed, size=replicates)
    return proportion(sum(is_unfit(proportion(int(count), n)) for count in counts), replicates)
