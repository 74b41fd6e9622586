"""Runs of operations are judged by true losses: recall, false findings, intervals that hold the truth."""

from __future__ import annotations

import pytest

from counterpose_core.contract.transforms import (
    ClassFinding,
    ClassTests,
    OperationFigure,
    OperationLevel,
    TransformSummary,
)
from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.types import Estimate
from evaluation.transforms_validity import figures
from evaluation.transforms_validity.planted import Sensitivity
from evaluation.transforms_validity.report import FindingReport, PlantedReport, RunReport, TransformsFigures


def about(value: float, reach: float = 0.02, n: int = 2000) -> Estimate:
    return Estimate(estimate=value, low=value - reach, high=value + reach, n=n)


def figure(operation: str, *shown: int) -> OperationFigure:
    levels = [
        OperationLevel(
            level=level,
            words="is changed",
            accuracy=proportion(50, 96),
            loss=about(0.1 * level, 0.05, 96),
            lost=0,
            gained=0,
            p=0.5,
            shown=level in shown,
        )
        for level in (1, 3, 5)
    ]
    return OperationFigure(
        classifier="one",
        operation=operation,
        state="breaks" if shown else "cannot-tell",
        images=96,
        sentence="It loses.",
        title=operation,
        family="camera",
        changes="",
        keeps="",
        from_level=min(shown, default=None),
        levels=levels,
    )


def of_class(operation: str, object_class: str, level: int) -> ClassFinding:
    return ClassFinding(
        classifier="one",
        operation=operation,
        images=60,
        sentence="It loses.",
        object_class=object_class,
        level=level,
        lost=40,
        gained=0,
        loss=about(0.6),
        p=0.0,
    )


def summary(*found: OperationFigure, classes: tuple[ClassFinding, ...] = ()) -> TransformSummary:
    tests = ClassTests(least=12, classes=8, too_small=0, tested=8, findings=list(classes), sentence="")
    return TransformSummary(
        images=96,
        groups=96,
        size=512,
        among={"one": 8},
        tested=len(found),
        margin=0.1,
        controls={},
        placebos={},
        figures=list(found),
        classes=tests,
    )


DARK = Sensitivity("darker", 3, 1)
DARK_FLIES = Sensitivity("darker", 3, 1, object_class="fly")
TOLD = summary(figure("darker", 3, 5), figure("rotation"), classes=(of_class("darker", "bee", 3),))


def test_a_whole_model_is_found_by_a_finding_on_all_classes_and_a_class_by_one_on_this_class() -> None:
    found = figures.about(DARK, TOLD)
    assert found is not None
    assert figures.level_of(found) == 3
    assert figures.about(DARK_FLIES, TOLD) is None
    assert figures.about(Sensitivity("darker", 3, 1, object_class="bee"), TOLD) is not None
    assert figures.about(Sensitivity("rotation", 3, 1), TOLD) is None
    assert figures.about(Sensitivity("darker", 3, 1, circumstance=("background", "sand")), TOLD) is not None


@pytest.mark.parametrize(
    ("one", "loss", "planted"),
    [(DARK, 0.31, True), (DARK, 0.29, False), (DARK_FLIES, 0.49, False), (DARK_FLIES, 0.51, True)],
)
def test_a_sensitivity_counts_as_planted_by_its_true_loss_at_a_tested_level(
    one: Sensitivity, loss: float, planted: bool
) -> None:
    # Level 4 is taught but not tested; level 1 is tested but not taught.
    by_level = {1: about(0.9), 2: about(0.0), 3: about(0.0), 4: about(0.9), 5: about(loss)}
    made = figures.planted_report("one", one, by_level, {96: TOLD})
    assert (made.planted, made.true.estimate) == (planted, loss)
    assert made.found == {96: one is DARK}
    assert made.said_from == {96: 3 if one is DARK else None}


@pytest.mark.parametrize(("true", "is_true"), [(0.049, False), (0.051, True), (-0.1, False)])
def test_a_finding_is_false_if_fresh_scenes_lose_less_than_five_points(true: float, is_true: bool) -> None:
    judged = figures.finding_report(("one", True, 96), figures.findings_of(TOLD)[0], about(true))
    assert judged.is_true is is_true
    assert (judged.operation, judged.level, judged.object_class) == ("darker", 3, "")


def test_an_interval_holds_a_truth_whose_own_interval_reaches_it() -> None:
    printed = Estimate(estimate=0.3, low=0.2, high=0.4, n=96)
    assert figures.holds(printed, about(0.39))
    assert figures.holds(printed, about(0.41, 0.05))
    assert not figures.holds(printed, about(0.41, 0.01))
    assert figures.holds(printed, about(0.19, 0.05))
    assert not figures.holds(printed, about(0.19, 0.01))
    assert not figures.holds_plainly(printed, about(0.41, 0.05))
    assert figures.holds_plainly(printed, about(0.39))


def test_every_interval_of_all_classes_is_judged_whether_a_loss_is_shown_or_not() -> None:
    cells = [cell for cell, _ in figures.printed_intervals(TOLD)]
    assert cells == [(name, level) for name in ("darker", "rotation") for level in (1, 3, 5)]


def planted(one: Sensitivity, loss: float, *, found: bool, size: int = 96) -> PlantedReport:
    by_level = {level: about(loss) for level in range(1, 6)}
    made = figures.planted_report("one", one, by_level, {})
    return made.model_copy(update={"found": {size: found}})


def finding(name: str, true: float, *, control: bool = False) -> FindingReport:
    return figures.finding_report((name, control, 96), figures.findings_of(TOLD)[0], about(true))


def run(name: str, *, control: bool, false: int = 0, size: int = 96) -> RunReport:
    return RunReport(
        classifier=name,
        control=control,
        image_set=0,
        size=size,
        accuracy=proportion(90, 96),
        true_accuracy=0.95,
        figures=20,
        class_tests=30,
        findings=1,
        false=false,
        intervals=60,
        covered=57,
        covered_plainly=54,
    )


def made(runs: list[RunReport]) -> TransformsFigures:
    sand = Sensitivity("darker", 3, 1, circumstance=("background", "sand"))
    reports = [
        planted(DARK, 0.8, found=True),
        planted(DARK, 0.8, found=False),
        planted(DARK, 0.2, found=False),
        planted(DARK, 0.8, found=False, size=480),
        planted(DARK_FLIES, 0.8, found=True),
        planted(sand, 0.8, found=False),
    ]
    judged = [finding("one", 0.5), finding("one", 0.2), finding("two", 0.01, control=True)]
    return figures.figures_of(96, reports, judged, runs)


RUNS = [run("one", control=False), run("two", control=True, false=1), run("three", control=True)]


def test_recall_is_of_what_is_planted_and_was_run_with_so_many_images() -> None:
    found = made(RUNS)
    assert (found.whole.estimate, found.whole.n) == (0.5, 2)
    assert (found.of_class.estimate, found.circumstance.estimate) == (1.0, 0.0)


def test_false_findings_are_told_of_all_runs_and_of_controls_with_their_tests() -> None:
    found = made(RUNS)
    assert (found.precision.estimate, found.precision.n) == (2 / 3, 3)
    assert (found.false_controls.estimate, found.false_controls.n) == (0.5, 2)
    # The truth of the false one is 0.01, from -0.01 to 0.03.
    assert (found.any_loss.estimate, found.groundless_controls.estimate) == (2 / 3, 0.5)
    assert (found.false_tests.estimate, found.false_tests.n) == (0.01, 100)


def test_coverage_is_of_all_intervals_of_runs_of_this_size() -> None:
    found = made([*RUNS, run("four", control=False, size=480)])
    assert (found.coverage.estimate, found.coverage.n) == (0.95, 180)
    assert found.coverage_plain.estimate == 0.9


def test_an_aim_is_stated_for_the_images_that_it_needs() -> None:
    few, many = made(RUNS), made(RUNS).model_copy(update={"of_class": about(0.8)})
    met = {aim.name: aim.met for aim in figures.aims_of({96: few, 480: many})}
    assert met["whole-model sensitivities found at 96 images"] is False
    assert met["sensitivities of one class found at 480 images"] is False
    assert met["findings that are true at 96 images"] is False
    assert met["intervals of losses that hold the truth at 96 images"] is True
    assert "sensitivities of one class found at 480 images" not in {
        aim.name for aim in figures.aims_of({96: few})
    }
    # One of two controls: the exact interval reaches down to 1 %.
    assert met["controls with a false finding at 96 images"] is True
