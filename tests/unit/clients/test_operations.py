"""What clients make of a run of operations: exit codes of a limit, and a tracker's figures."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from counterpose._cli.exit_code import ExitCode
from counterpose._cli.junit import stress_test_junit
from counterpose._cli.outcomes import DropLimit
from counterpose._trackers.figures import figures_of
from counterpose_core.contract.severity import (
    LevelOfLoss,
    MonotonicityFigure,
    SeverityFigure,
    SeverityPlan,
    SeveritySummary,
)
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_core.contract.transforms import OperationFigure, OperationLevel, TransformSummary
from counterpose_core.types import Estimate
from fakes.sdk import a_summary

HARMLESS = Estimate(estimate=0.0, low=-0.02, high=0.03, n=40)
LARGE = Estimate(estimate=0.4, low=0.3, high=0.5, n=40)


def of_operations(*losses: tuple[Estimate, bool]) -> StressTestSummary:
    """A run of rotation at so many levels, each with its loss and whether one is shown."""
    levels = [
        OperationLevel(
            level=number, words=f"is turned by level {number}", accuracy=HARMLESS, loss=loss,
            lost=0, gained=0, p=0.5, shown=shown,
        )
        for number, (loss, shown) in enumerate(losses, start=1)
    ]  # fmt: skip
    figure = OperationFigure(
        number=1, classifier="leaning", operation="rotation", title="Rotation", family="geometry",
        changes="", keeps="", state="cannot-tell", from_level=None, images=40, sentence="", levels=levels,
    )  # fmt: skip
    told = TransformSummary(
        images=40, groups=40, size=512, among={}, tested=1, margin=0.1, controls={"leaning": LARGE},
        placebos={}, figures=[figure],
    )  # fmt: skip
    return a_summary().model_copy(
        update={"transforms": told, "config": {"request": {"max_edits_per_image": 0}}}
    )


def with_failure_points(summary: StressTestSummary) -> StressTestSummary:
    """The same run, had it asked for severity."""
    figure = SeverityFigure(
        classifier="leaning", operation="rotation", title="Rotation", images=40, groups=40, right=38,
        never=LARGE, levels=[], loss_level=LevelOfLoss(loss=0.1, level=2.2, low=1.5, high=None),
        monotonicity=MonotonicityFigure(n=14, violated=0, tolerance=0.01, p=1.0, rejected=False),
        in_full=False, claimed=2, classifications=80, of_grid=200,
        sentence="40 % fail at no level; a loss of 10 points: at level 2.2 (1.5 to beyond the levels).",
    )  # fmt: skip
    severity = SeveritySummary(
        plan=SeverityPlan(plan="adaptive", loss=0.1, full_share=0.1), shares={}, classifications=80,
        of_grid=200, figures=[figure], sentence="",
    )  # fmt: skip
    assert summary.transforms is not None
    return summary.model_copy(
        update={"transforms": summary.transforms.model_copy(update={"severity": severity})}
    )


@pytest.mark.parametrize(
    ("losses", "limit", "code"),
    [
        ([(HARMLESS, False), (LARGE, True)], 0.2, ExitCode.FAILED),
        # Its own interval lies above the limit, and the corrected test shows nothing.
        ([(HARMLESS, False), (LARGE, False)], 0.2, ExitCode.INCONCLUSIVE),
        ([(HARMLESS, False), (LARGE, True)], 0.4, ExitCode.INCONCLUSIVE),
        ([(HARMLESS, False), (LARGE, True)], 0.5, ExitCode.PASSED),
        ([(HARMLESS, False)], 0.05, ExitCode.PASSED),
    ],
)
def test_a_limit_of_the_drop_judges_every_level_of_every_operation(
    losses: list[tuple[Estimate, bool]], limit: float, code: ExitCode
) -> None:
    summary = of_operations(*losses)
    assert DropLimit(limit).exit_code(summary) is code
    assert "leaning where the image is turned by level 1" in DropLimit(limit).explain(summary)
    suite = ET.fromstring(stress_test_junit(summary, DropLimit(limit), ExitCode.PASSED))[0]
    said = {ExitCode.FAILED: "drop", ExitCode.INCONCLUSIVE: "inconclusive", ExitCode.PASSED: None}
    (case,) = suite.findall("testcase")
    assert case.attrib == {"classname": "counterpose.stress-test.leaning", "name": "Rotation"}
    assert case[0].attrib.get("type") == said[code]
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("1", "0" if code is ExitCode.PASSED else "1")


def test_the_case_of_an_operation_tells_its_losses_and_where_images_fail() -> None:
    summary = with_failure_points(of_operations((HARMLESS, False), (LARGE, True)))
    (case,) = ET.fromstring(stress_test_junit(summary, DropLimit(0.2), ExitCode.PASSED))[0]
    assert case[0].attrib["message"] == (
        "drop 0.000 [-0.020, 0.030] (n=40) where the image is turned by level 1, 0.400 [0.300, 0.500] (n=40) "
        "where the image is turned by level 2; 40 % fail at no level; a loss of 10 points: at level 2.2 (1.5 "
        "to beyond the levels)."
    )


def test_a_loss_that_is_real_and_no_finding_fails_a_limit_below_it() -> None:
    summary = of_operations((Estimate(estimate=0.04, low=0.02, high=0.06, n=400), False))
    figure = summary.transforms.figures[0] if summary.transforms else None
    assert figure is not None
    assert DropLimit(0.01).exit_code(summary) is ExitCode.INCONCLUSIVE
    real = figure.model_copy(update={"levels": [figure.levels[0].model_copy(update={"real": True})]})
    told = summary.transforms and summary.transforms.model_copy(update={"figures": [real]})
    assert DropLimit(0.01).exit_code(summary.model_copy(update={"transforms": told})) is ExitCode.FAILED


def test_a_tracker_gets_the_loss_of_each_level_with_its_interval() -> None:
    figures = figures_of(of_operations((HARMLESS, False), (LARGE, True)))
    assert figures["operations/leaning/rotation/2"] == 0.4
    assert figures["operations/leaning/rotation/2.low"] == 0.3
    assert figures["operations/leaning/rotation/1.n"] == 40
    assert figures["transforms/controls/leaning"] == 0.4
