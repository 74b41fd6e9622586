"""What clients make of a run of operations: exit codes of a limit, and a tracker's figures."""

from __future__ import annotations

import pytest

from counterpose._cli.exit_code import ExitCode
from counterpose._cli.outcomes import DropLimit
from counterpose._trackers.figures import figures_of
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
