"""Intervals over many simulated datasets: how often they contain the truth."""

from __future__ import annotations

import numpy as np
import pytest

from counterpose_core.shift_benchmark.benchmark import shift_benchmark
from counterpose_core.statistics.bootstrap import bootstrap_mean
from counterpose_core.types import Estimate
from evaluation.reference.plain_figures import slopes
from fakes.simulated_answers import World


@pytest.mark.parametrize("n", [10, 25, 40])
def test_intervals_have_about_their_nominal_coverage(n: int) -> None:
    """Sources with one to five edits each, of which some flip the answer."""
    draw, covered = np.random.default_rng(n), 0
    for _ in range(300):
        edits = draw.integers(1, 6, size=n)
        susceptible = draw.beta(1.0, 2.0, size=n)
        values = draw.binomial(edits, susceptible) / edits
        figure = bootstrap_mean(list(values), draw, bounds=(0.0, 1.0), draws=400)
        assert figure.low is not None
        assert figure.high is not None
        covered += figure.low <= 1 / 3 <= figure.high
    assert 0.91 <= covered / 300 <= 0.985


@pytest.mark.parametrize(("world", "images", "share_kept"), [(0, 12, 0.95), (1, 20, 0.8)])
def test_shift_impact_and_slope_intervals_have_about_their_nominal_coverage(
    world: int, images: int, share_kept: float
) -> None:
    """Six classes and eight models: one shift that costs a little, one that costs more.

    A slope is given only where the base accuracies are reliable, and counts there.
    """
    simulated, draw = World(seed=world), np.random.default_rng(5)
    base, *shifted = simulated.truth.mean(axis=1)
    covered: dict[str, list[bool]] = {name: [] for name in ("impact", "slope", "drop", "accuracy")}
    for _ in range(200):
        answers = simulated.answers(draw, images, share_kept=share_kept)
        for row, truth in zip(shift_benchmark(answers, draw, draws=400).rows, shifted, strict=True):
            assert row.effect is not None
            assert row.effect.classes == answers.classes
            weakest = row.effect.models[0]
            covered["impact"].append(holds(row.effect.impact, float(np.mean(base - truth))))
            if row.effect.slope.refused is None:
                covered["slope"].append(holds(row.effect.slope.slope, float(slopes(base, truth))))
            covered["drop"].append(holds(weakest.drop, float(base[0] - truth[0])))
            covered["accuracy"].append(holds(weakest.shifted, float(truth[0])))
    assert {name: 0.92 <= np.mean(hits) <= 0.985 for name, hits in covered.items()} == dict.fromkeys(
        covered, True
    )


def holds(figure: Estimate, truth: float) -> bool:
    assert figure.low is not None
    assert figure.high is not None
    return figure.low <= truth <= figure.high
