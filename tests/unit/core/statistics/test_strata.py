"""Rates of two sets of images of several labels: exact with one label, standardised with several."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.statistics.strata import standardised_rate, stratified_p


def test_with_one_label_the_p_is_fisher_s() -> None:
    expected = scipy.stats.fisher_exact([[9, 3], [4, 16]], alternative="greater").pvalue
    assert stratified_p({"fly": (9, 12)}, {"fly": (4, 20)}) == pytest.approx(expected, rel=1e-9)


def test_a_label_that_mostly_fails_proves_nothing_by_being_frequent() -> None:
    """Simpson: with the labels pooled, ours would fail far more often."""
    ours, theirs = {"fly": (80, 100), "bus": (1, 10)}, {"fly": (8, 10), "bus": (10, 100)}
    assert stratified_p(ours, theirs) > 0.5
    assert stratified_p({"all": (81, 110)}, {"all": (18, 110)}) < 1e-6
    rate = standardised_rate(theirs, ours)
    assert rate.estimate == pytest.approx(81 / 110)
    assert rate.n == 110


def test_the_level_holds_where_labels_differ() -> None:
    generator, rejected = np.random.default_rng(0), 0
    for _ in range(1000):
        ours = {name: (int(generator.binomial(n, p)), n) for name, n, p in (("a", 30, 0.5), ("b", 8, 0.1))}
        theirs = {name: (int(generator.binomial(n, p)), n) for name, n, p in (("a", 10, 0.5), ("b", 40, 0.1))}
        rejected += stratified_p(ours, theirs) <= 0.05
    assert rejected <= 62


def test_one_label_has_the_interval_of_a_proportion() -> None:
    found, expected = standardised_rate({"fly": (20, 60)}, {"fly": (1, 3)}), proportion(20, 60)
    assert found.estimate == expected.estimate
    assert found.low == pytest.approx(expected.low)
    assert found.high == pytest.approx(expected.high)


def test_the_interval_covers_the_standardised_rate() -> None:
    generator, covered = np.random.default_rng(1), 0
    weights = {"a": (0, 90), "b": (0, 10)}
    truth = 0.9 * 0.3 + 0.1 * 0.05
    for _ in range(1000):
        theirs = {name: (int(generator.binomial(40, p)), 40) for name, p in (("a", 0.3), ("b", 0.05))}
        found = standardised_rate(theirs, weights)
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= truth <= found.high
    assert covered >= 930


def test_labels_of_one_side_alone_are_not_compared() -> None:
    assert stratified_p({"fly": (5, 5)}, {"bus": (0, 9)}) == 1.0
    assert standardised_rate({"bus": (0, 9)}, {"fly": (5, 5)}).estimate is None
    both = standardised_rate({"bus": (0, 9), "fly": (1, 4)}, {"fly": (5, 5)})
    assert (both.estimate, both.n) == (0.25, 4)
