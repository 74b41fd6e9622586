"""The simulations of what a run says notice the rules that were in force before."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest

from counterpose_core.contract.stress_tests import Insight
from counterpose_core.shift_benchmark import shift_effect
from counterpose_core.shift_benchmark.accuracy_line import ModelAccuracies, Slope
from counterpose_core.statistics.bootstrap import Floats
from counterpose_core.statistics.contrast import Contrast
from counterpose_core.types import Estimate
from evaluation.error_rates import nested_changes, verdicts
from evaluation.error_rates.benchmarks import impact_coverage, slope_rates
from evaluation.error_rates.cells import CELLS
from evaluation.reference.plain_figures import slopes


def test_no_change_was_shown_although_none_was_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = CELLS["harm denied of changes that could not be tested, 20 groups of 3"]

    def denied(insights: Sequence[Insight]) -> bool:
        return not any(insight.significant for insight in insights)

    monkeypatch.setattr(verdicts, "denies", denied)
    assert not cell.holds(cell.simulate(24, np.random.default_rng(0))[0])


def test_the_worst_change_was_estimated_by_the_images_that_made_it_the_worst(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def as_seen(screened: Floats, fresh: Floats) -> Floats:
        return screened

    monkeypatch.setattr(verdicts, "stated_losses", as_seen)
    cell = CELLS["stated loss of the change ranked first exceeds the true one, sym"]
    assert not cell.holds(cell.simulate(40, np.random.default_rng(1))[0])


def test_few_images_were_never_enough_to_call_a_test_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_unfit(changed: Estimate) -> bool:
        return (changed.high or 0.0) > 0.06

    monkeypatch.setattr(verdicts, "is_unfit", is_unfit)
    cell = CELLS["called unfit, controls change 1 % of 48 answers"]
    assert not cell.holds(cell.simulate(24, np.random.default_rng(2))[0])


def test_findings_without_correction_are_false_too_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaving out covered findings never raised the rate of false ones; leaving out the correction does."""

    def uncorrected(family: Sequence[Contrast], generator: np.random.Generator, **_: bool) -> list[bool]:
        return [contrast.p(generator, draws=500) <= 0.10 for contrast in family]

    monkeypatch.setattr(nested_changes, "shown", uncorrected)
    cell = CELLS["false changes of words among those shown, covered ones left out"]
    assert not cell.holds(cell.simulate(80, np.random.default_rng(3))[0])


def test_a_line_through_models_that_hardly_differ_was_stated_and_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shift_effect, "linear_slope", _least_squares)
    cell = CELLS["slope stated without the truth, 8 classes x 12 images, 12 models, sd 0.12"]
    draw = partial(slope_rates, 8, 12, 12, 0.12)
    assert not cell.holds(draw(24, np.random.default_rng(4)).misleading)


def test_the_impact_over_frames_of_few_videos_was_stated_as_over_so_many_images() -> None:
    cell = CELLS["impact, 8 classes x 10 blocks of 4 images, 12 models"]
    found = impact_coverage(8, 40, 40, np.random.default_rng(5), block=10, grouped=False)
    assert not cell.holds(found)


def _least_squares(found: ModelAccuracies) -> Slope:
    """The slope of measured accuracies with the quantiles of its draws, as before."""
    low, high = np.nanquantile(slopes(found.base_draws, found.shifted_draws), [0.025, 0.975])
    value = float(slopes(found.base, found.shifted))
    estimate = Estimate(
        estimate=value, low=min(float(low), value), high=max(float(high), value), n=len(found.models)
    )
    return Slope(estimate, None, None)
