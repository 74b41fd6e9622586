"""Which printed intervals hold the rendered true loss, and which findings are not compared."""

from __future__ import annotations

import numpy as np
import pytest

from counterpose_core.types import Estimate
from evaluation.tests.unit.two_stages.test_figures import a_claim, about
from evaluation.two_stages.coverage import coverage_of
from evaluation.validity.measures import UNKNOWN


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_an_interval_is_counted_beside_its_verdict() -> None:
    claims = [
        a_claim(0.6, 0.58),
        a_claim(0.6, 0.4, classifier="other"),
        a_claim(0.1, 0.1, state="cannot-tell"),
        a_claim(0.0, 0.0, state="holds"),
    ]
    found = coverage_of(claims, rng())
    assert {state: (one.estimate, one.n) for state, one in found.by_state.items()} == {
        "breaks": (0.5, 2),
        "cannot-tell": (1.0, 1),
        "holds": (1.0, 1),
    }
    assert (found.all.estimate, found.all.n) == (0.75, 4)
    assert found.left_out == {}


def test_the_ends_of_an_interval_belong_to_it() -> None:
    interval = Estimate(estimate=0.5, low=0.25, high=0.75, n=8)
    for true, holds in [(0.25, 1.0), (0.75, 1.0), (0.24, 0.0), (0.76, 0.0)]:
        assert coverage_of([a_claim(true=true, estimate=interval)], rng()).all.estimate == holds


@pytest.mark.parametrize(("scope", "holds"), [("class", 0.0), ("images", 1.0)])
def test_an_interval_is_held_against_what_it_speaks_of(scope: str, holds: float) -> None:
    claim = a_claim(0.6, scope=scope, true_on_images=about(0.6), true_on_class=about(0.2))
    assert coverage_of([claim], rng()).all.estimate == holds


def test_what_has_no_interval_or_no_truth_is_left_out_with_its_reason() -> None:
    claims = [
        a_claim(),
        a_claim(state="suspected"),
        a_claim(conjunction=True),
        a_claim(conjunction=True, estimate=UNKNOWN),
        a_claim(state="cannot-tell", estimate=UNKNOWN),
        a_claim(true_on_class=UNKNOWN),
    ]
    found = coverage_of(claims, rng())
    assert found.all.n == 1
    assert found.left_out == {"no-interval": 1, "no-truth": 1, "not-tested": 1, "two-conditions": 2}
