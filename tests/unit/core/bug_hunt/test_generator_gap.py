"""The failure rate that a user's images surely reach, from the rate on a generator's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from counterpose_core.bug_hunt.generator_gap import least_rate
from counterpose_core.statistics.bootstrap import proportion


@pytest.mark.parametrize(("failures", "images"), [(32, 32), (25, 32), (3, 60), (1, 8)])
def test_it_lies_below_the_interval_of_the_generator_and_falls_with_the_gap(
    failures: int, images: int
) -> None:
    low = proportion(failures, images).low
    assert low is not None
    narrow, wide = least_rate(failures, images, 0.3), least_rate(failures, images, 1.5)
    assert 0.0 < wide < narrow < failures / images
    # Without a gap it is the one-sided bound, which lies above the two-sided one.
    assert least_rate(failures, images, 1e-3) == pytest.approx(
        scipy.stats.beta.ppf(0.05, failures, images - failures + 1), rel=0.02
    )
    assert wide < low


def test_no_failure_promises_none() -> None:
    assert least_rate(0, 64, 1.2) == 0.0


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_it_holds_for_nineteen_of_twenty_users_whose_rates_differ_by_the_gap(rate: float) -> None:
    generator = np.random.default_rng(3)
    users = scipy.special.expit(scipy.special.logit(rate) + generator.normal(0.0, 1.2, 600))
    seen = generator.binomial(32, rate, 600)
    held = [user >= least_rate(int(failures), 32, 1.2) for user, failures in zip(users, seen, strict=True)]
    assert np.mean(held) > 0.93
