"""Intervals and p-values of many sources: as those of few, at a cost that hardly grows."""

from __future__ import annotations

import numpy as np
import pytest

from counterpose_core.statistics.bootstrap import bootstrap_mean
from counterpose_core.statistics.many_sources import (
    MANY,
    MANY_RELABELLED,
    batched_means,
    relabelling_p,
)
from counterpose_core.statistics.p_values import sign_flip_p

N = 3000
DRAWS = 20_000


def skewed(n: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Losses of which most are small and some are large."""
    return np.random.default_rng(seed).beta(0.3, 3.0, n)


def drawn_p(tables: list[np.ndarray[tuple[int, int], np.dtype[np.float64]]], seed: int) -> float:
    """The p of the same test by drawing one option of each source, one by one."""
    generator = np.random.default_rng(seed)
    true = sum(table[:, 0].sum() for table in tables)
    sums = np.zeros(DRAWS)
    for table in tables:
        for row in table:
            sums += row[generator.integers(row.size, size=DRAWS)]
    return (int(np.sum(sums >= true - 1e-9)) + 1) / (DRAWS + 1)


def test_means_of_batches_spread_as_means_of_sources_do() -> None:
    values = skewed(N, 0)
    means = batched_means(values[:, None], np.random.default_rng(1), DRAWS)[:, 0]
    assert means.mean() == pytest.approx(values.mean(), abs=3e-4)
    assert means.std() == pytest.approx(values.std() / np.sqrt(N), rel=0.08)


def test_batches_are_dealt_at_random_as_neighbours_are_alike() -> None:
    values = np.repeat([0.0, 1.0], N // 2)
    means = batched_means(values[:, None], np.random.default_rng(1), DRAWS)[:, 0]
    assert means.std() == pytest.approx(0.5 / np.sqrt(N), rel=0.08)


def test_the_interval_of_many_sources_is_that_of_all_their_draws() -> None:
    values = skewed(MANY + 1, 2)
    plain = values[np.random.default_rng(3).integers(values.size, size=(4000, values.size))].mean(axis=1)
    found = bootstrap_mean(values.tolist(), np.random.default_rng(4), bounds=(0.0, 1.0))
    low, high = np.quantile(plain, [0.025, 0.975])
    assert found.low == pytest.approx(low, abs=0.15 * (high - low))
    assert found.high == pytest.approx(high, abs=0.15 * (high - low))


@pytest.mark.parametrize("shift", [0.0, 0.006, 0.012, -0.006])
def test_the_saddle_point_gives_the_p_of_drawn_labellings(shift: float) -> None:
    generator = np.random.default_rng(5)
    images = generator.beta(0.5, 2.0, (600, 4))
    images[:, 0] -= shift * 4
    tables = [(images.sum(axis=1, keepdims=True) - images) / 3 - images]
    p = relabelling_p(tables, np.random.default_rng(6), DRAWS)
    assert p == pytest.approx(drawn_p(tables, 7), rel=0.1, abs=0.006)


def test_sources_that_are_alike_are_counted_together() -> None:
    right = (np.random.default_rng(8).random((700, 3)) < 0.3).astype(np.float64)
    tables = [(right.sum(axis=1, keepdims=True) - right) / 2 - right]
    p = relabelling_p(tables, np.random.default_rng(9), DRAWS)
    assert p == pytest.approx(drawn_p(tables, 10), rel=0.1, abs=0.01)


def test_a_loss_of_every_source_has_the_least_p() -> None:
    values = skewed(MANY_RELABELLED + 1, 11)
    assert sign_flip_p(values, np.random.default_rng(12), draws=DRAWS) == 1 / (DRAWS + 1)
    assert sign_flip_p(-values, np.random.default_rng(12), draws=DRAWS) > 1.0 - 1e-6
