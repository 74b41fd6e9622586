"""Levels that runs say are held against those that fresh scenes have: near, held, and what they took."""

from __future__ import annotations

from counterpose_core.contract.severity import (
    LevelOfLoss,
    MonotonicityFigure,
    SeverityFigure,
    SeverityPlan,
    SeveritySummary,
)
from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.types import Estimate
from evaluation.transforms_validity.failure_points import (
    asked_of,
    failure_points,
    is_held,
    is_near,
    level_reports,
)
from evaluation.transforms_validity.figures import aims_of
from evaluation.transforms_validity.planted import Sensitivity, Taught
from evaluation.transforms_validity.report import LevelReport

TAUGHT = Taught(
    61,
    0,
    (
        Sensitivity("fog", 3, 1),
        Sensitivity("darker", 2, 1, object_class="fly"),
        Sensitivity("greyscale", 1, 1),
    ),
)


def figure(operation: str, level: float | None, low: float | None, high: float | None) -> SeverityFigure:
    return SeverityFigure(
        classifier=TAUGHT.name, operation=operation, title=operation, images=96, groups=96, right=90,
        never=proportion(4, 90), levels=[], loss_level=LevelOfLoss(loss=0.1, level=level, low=low, high=high),
        monotonicity=MonotonicityFigure(n=14, violated=0, tolerance=0.01, p=1.0, rejected=False),
        in_full=False, classifications=240, of_grid=480, sentence="",
    )  # fmt: skip


def report(level: float | None, low: float | None, high: float | None) -> LevelReport:
    told = SeveritySummary(
        plan=SeverityPlan(plan="adaptive", loss=0.1, full_share=0.14), shares={}, classifications=240,
        of_grid=480, sentence="",
        figures=[figure("rotation", 1.0, 1.0, 1.0), figure("fog", level, low, high)],
    )  # fmt: skip
    # Fresh scenes lose 10 points halfway between the second level and the third.
    by_level = {at: Estimate(estimate=loss, low=loss, high=loss, n=2000)
                for at, loss in enumerate((0.0, 0.0, 0.2, 0.9, 0.9), start=1)}  # fmt: skip
    (found,) = level_reports(TAUGHT, 1, told, {"fog": by_level})
    return found


def test_levels_are_asked_of_what_is_planted_in_the_whole_model_at_several_levels() -> None:
    assert [each.operation for each in asked_of(TAUGHT)] == ["fog"]


def test_a_level_is_near_within_half_a_level_of_the_true_one() -> None:
    assert report(2.1, 2.0, 3.0).true == 2.5
    levels = (2.0, 2.1, 3.0, 3.1, None)
    assert [is_near(report(level, 2.0, 3.0)) for level in levels] == [True, True, True, False, False]


def test_an_interval_without_an_upper_end_holds_all_above() -> None:
    ends = ((2.2, 2.8), (2.6, 3.0), (2.0, 2.4), (2.0, None), (None, None))
    assert [is_held(report(2.5, *each)) for each in ends] == [True, False, False, True, False]


def test_the_figures_count_runs_and_the_aims_are_of_them() -> None:
    told = failure_points([report(2.4, 2.0, 3.0), report(3.5, 3.0, 4.0)], 96)
    assert (told.near.estimate, told.held.estimate, told.asked) == (0.5, 0.5, 0.5)
    near, held = aims_of({}, told)
    assert (near.met, near.reached.n, held.met) == (False, 2, False)
