"""Intervals over many simulated datasets: how often they hold the truth."""

from __future__ import annotations

import numpy as np
import pytest

from fakes.confounded_sources import sources
from fakes.shifted_answers import World
from faultline_core.accuracy_line import slopes
from faultline_core.confounding import confounding
from faultline_core.shift_benchmark import shift_benchmark
from faultline_core.statistics import bootstrap_mean
from faultline_core.types import Estimate


@pytest.mark.parametrize("n", [10, 25, 40])
def test_intervals_cover_the_truth_about_as_often_as_they_say(n: int) -> None:
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


@pytest.mark.parametrize(("world", "pictures", "share_kept"), [(0, 12, 0.95), (1, 20, 0.8)])
def test_intervals_of_a_shift_s_impact_and_slope_cover_the_truth_about_as_often_as_they_say(
    world: int, pictures: int, share_kept: float
) -> None:
    """Six classes and eight models: one shift that costs a little, one that costs more."""
    simulated, draw = World(seed=world), np.random.default_rng(5)
    base, *shifted = simulated.truth.mean(axis=1)
    covered: dict[str, int] = dict.fromkeys(("impact", "slope", "drop", "accuracy"), 0)
    for _ in range(200):
        answers = simulated.answers(draw, pictures, share_kept=share_kept)
        for row, truth in zip(shift_benchmark(answers, draw, draws=400).rows, shifted, strict=True):
            assert row.effect is not None
            assert row.effect.classes == answers.classes
            weakest = row.effect.models[0]
            covered["impact"] += holds(row.effect.impact, float(np.mean(base - truth)))
            covered["slope"] += holds(row.effect.slope.slope, float(slopes(base, truth)))
            covered["drop"] += holds(weakest.drop, float(base[0] - truth[0]))
            covered["accuracy"] += holds(weakest.shifted, float(truth[0]))
    assert {name: 0.92 <= hits / 400 <= 0.985 for name, hits in covered.items()} == dict.fromkeys(
        covered, True
    )


@pytest.mark.parametrize(("token", "class_name"), [(0.0, 0.3), (0.1, 0.1)])
def test_intervals_of_confounding_hold_the_true_errors_though_noise_alone_makes_some(
    token: float, class_name: float
) -> None:
    draw, covered = np.random.default_rng(2), np.zeros(3)
    for _ in range(200):
        table = sources(draw, token=token, class_name=class_name, pictures=20)
        found = confounding(table, draw, draws=200)
        covered += [
            holds(found.token_error, token),
            holds(found.class_name_error, class_name),
            holds(found.difference, token - class_name),
        ]
    # Where no error's sign is known the intervals allow for noise in either direction.
    assert np.all(covered / 200 >= 0.91)


def holds(figure: Estimate, truth: float) -> bool:
    assert figure.low is not None
    assert figure.high is not None
    return figure.low <= truth <= figure.high
