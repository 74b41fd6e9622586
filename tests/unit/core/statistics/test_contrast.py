"""The loss beyond the source's own placebo: its sources, its test, its interval and the detectable loss."""

from __future__ import annotations

import math

import numpy as np
import pytest

from counterpose_core.statistics.bootstrap import Floats
from counterpose_core.statistics.contrast import Contrast, sources_needed
from counterpose_core.statistics.p_values import rejectable


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def contrast_of(edits: list[list[float]], placebos: list[float], groups: list[str] | None = None) -> Contrast:
    """The contrast of sources from the losses of each one's edits and of its placebo."""
    flat = [loss for losses in edits for loss in losses]
    sources = [index for index, losses in enumerate(edits) for _ in losses]
    found = Contrast.between(flat, sources, placebos, groups=groups)
    assert found is not None
    return found


def single(values: Floats) -> Contrast:
    """A contrast of sources with one edit each and placebos that lose nothing."""
    return contrast_of([[value] for value in values.tolist()], [0.0] * values.size)


def test_each_source_is_compared_with_its_own_placebo() -> None:
    found = contrast_of([[0.5, 0.7], [0.4]], [0.1, 0.4])
    assert found.values == pytest.approx([0.5, 0.0])
    assert found.mean == pytest.approx(0.25)
    assert found.n == 2


def test_sources_without_an_edit_or_a_placebo_are_left_out() -> None:
    """No placebo of another source takes the place of a missing one."""
    found = contrast_of([[0.9], [0.5], []], [math.nan, 0.2, 0.9])
    assert found.values == pytest.approx([0.3])
    assert Contrast.between([0.9], [0], [math.nan]) is None
    assert Contrast.between([], [], [0.1, 0.2]) is None


def test_noisy_placebos_weaken_the_evidence() -> None:
    sure = contrast_of([[0.3]] * 10, [0.0] * 10)
    unsure = contrast_of([[0.3]] * 10, [0.9 * (-1) ** index for index in range(10)])
    assert sure.mean == pytest.approx(unsure.mean) == pytest.approx(0.3)
    assert sure.p(generator()) == pytest.approx(2**-10)
    assert unsure.p(generator()) > 10 * sure.p(generator())


def test_the_interval_contains_the_difference_and_counts_sources() -> None:
    placebos = generator(1).normal(0.0, 0.1, 60)
    edits = generator(2).normal(0.2, 0.1, 60)
    found = contrast_of([[value] for value in edits.tolist()], placebos.tolist())
    figure = found.estimate(generator())
    assert figure.estimate == pytest.approx(found.mean)
    assert figure.n == 60
    assert figure.low is not None
    assert figure.high is not None
    assert (figure.high - figure.low) / 2 == pytest.approx(2.0 * 0.1 * np.sqrt(2 / 60), rel=0.35)


def test_the_placebo_is_permuted_among_the_images_of_a_source() -> None:
    """Two sources x three images: the truth is the best of nine labellings."""
    found = contrast_of([[0.3, 0.4], [0.3, 0.4]], [-0.5, -0.5])
    assert all(options.sum() == pytest.approx(0.0) for table in found.tables for options in table)
    assert found.p(generator()) == pytest.approx(1 / 9) == found.least_p


def test_the_opposite_of_a_contrast_tests_the_other_side() -> None:
    found = contrast_of([[0.3]] * 8, [0.0] * 8)
    assert found.reversed.mean == -found.mean
    assert found.reversed.p(generator()) == 1.0
    assert found.reversed.least_p == found.least_p


@pytest.mark.parametrize(("edits", "n"), [(1, 6), (2, 4), (5, 3)])
def test_no_outcome_has_a_smaller_p_than_the_least(edits: int, n: int) -> None:
    best = contrast_of([[1.0] * edits] * n, [0.0] * n)
    assert best.p(generator()) == pytest.approx(best.least_p) == pytest.approx((edits + 1) ** -n)
    assert best.needed(best.least_p) == n
    assert best.needed(best.least_p * 0.99) == n + 1


def test_a_test_without_any_source_yet_takes_one_for_each_halving_of_the_level() -> None:
    assert [sources_needed(level) for level in (0.05, 0.05 / 8, 0.5)] == [5, 8, 1]


def test_the_sources_of_a_group_are_relabelled_together_and_count_once() -> None:
    alone = contrast_of([[0.3]] * 8, [0.0] * 8)
    frames = contrast_of([[0.3]] * 8, [0.0] * 8, groups=["a", "b"] * 4)
    assert (alone.n, frames.n) == (8, 2)
    assert frames.mean == pytest.approx(alone.mean)
    assert frames.p(generator()) == pytest.approx(1 / 4) == frames.least_p


def test_a_group_of_sources_with_different_edits_keeps_their_mean() -> None:
    """Under a labelling, only sources that have the image at that place count."""
    edits, sources = [0.6, 0.2, 0.1, 0.5], [0, 0, 0, 1]
    found = Contrast.between(edits, sources, [0.0, 0.1], groups=["a", "a"], places=[0, 1, 2, 1])
    assert found is not None
    [[options]] = found.tables
    assert options[0] == found.mean == pytest.approx((0.3 + 0.4) / 2)
    first, both = (0.0 + 0.2 + 0.1) / 3 - 0.6, ((0.0 + 0.6 + 0.1) / 3 - 0.2 + 0.1 - 0.5) / 2
    assert options[1:3] == pytest.approx([first, both])


def test_near_duplicates_raise_no_more_false_alarms_than_single_sources() -> None:
    """Blocks of four alike sources, some of whose images are missing; the level is 5 %."""
    draw, alarms, runs = generator(7), 0, 300
    for _ in range(runs):
        losses = np.repeat(draw.beta(0.5, 3.0, size=(15, 4)), 4, axis=0)
        kept = draw.random((60, 4)) < 0.7
        rows, places = np.nonzero(kept[:, 1:])
        placebos = np.where(kept[:, 0], losses[:, 0], np.nan)
        found = Contrast.between(
            losses[:, 1:][rows, places], rows, placebos, groups=(np.arange(60) // 4).tolist(), places=places
        )
        assert found is not None
        alarms += found.p(draw, draws=500) <= 0.05
    assert 0.01 <= alarms / runs <= 0.09


@pytest.mark.parametrize(("n", "level"), [(20, 0.05), (40, 0.05), (40, 0.005)])
def test_the_detectable_drop_has_a_power_of_80_percent(n: int, level: float) -> None:
    draw, found, runs = generator(n), 0, 200
    for _ in range(runs):
        noise = draw.normal(0.0, 0.25, size=n)
        noise *= 0.25 / noise.std(ddof=1)
        drop = single(noise - noise.mean()).detectable(level)
        assert drop is not None
        shifted = single(drop + draw.normal(0.0, 0.25, size=n))
        found += shifted.p(draw, draws=1000) <= level
    assert 0.71 <= found / runs <= 0.89


def test_with_unanimous_sources_the_detectable_drop_is_binomial() -> None:
    same = single(np.zeros(20))
    drop = same.detectable(0.05)
    assert drop is not None
    dropping = generator(3).binomial(20, drop, size=4000)
    assert np.mean(0.5**dropping <= 0.05) == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize(("n", "level"), [(1, 0.05), (4, 0.05), (20, 1e-9)])
def test_too_few_sources_have_no_detectable_drop(n: int, level: float) -> None:
    spread = generator(4).normal(0.0, 0.2, size=n)
    assert single(spread).detectable(level) is None
    assert single(np.zeros(n)).detectable(level) is None


def test_a_detectable_drop_above_one_is_unknown() -> None:
    assert single(np.array([1.0, -1.0] * 5)).detectable(0.01) is None


def test_a_family_of_thousands_has_members() -> None:
    """19 classifiers and hundreds of changes each: no member may be lost to the number of random draws."""
    found = Contrast.between(np.full(20, 0.1), np.arange(20), np.full(20, 0.9))
    assert found is not None
    assert found.least_p == pytest.approx(2.0**-20)
    assert rejectable([found.least_p] * 3000, 0.10).all()
