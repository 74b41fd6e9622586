"""Intervals over many simulated datasets: how often they hold the truth."""

from __future__ import annotations

import numpy as np
import pytest

from faultline_core.statistics import bootstrap_mean


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
