"""The page about operations on images: what is found of what was planted, and every false finding."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.types import Estimate
from evaluation.evidence.operations import operations_page
from evaluation.transforms_validity.report import (
    FailurePoints,
    FindingReport,
    LevelReport,
    PlantedReport,
    RunReport,
    TransformsFigures,
    TransformsValidity,
)


def about(value: float, n: int = 8) -> Estimate:
    return Estimate(estimate=value, low=value - 0.1, high=value + 0.1, n=n)


def figures(whole: float, of_class: float) -> TransformsFigures:
    named = {"whole", "of_class", "precision", "coverage", "coverage_plain"}
    return TransformsFigures(
        whole=about(whole, 17),
        of_class=about(of_class, 9),
        precision=about(0.9, 70),
        coverage=about(0.94, 1500),
        coverage_plain=about(0.92, 1500),
        **dict.fromkeys(TransformsFigures.model_fields.keys() - named, about(0.5)),
    )


def finding(object_class: str, true: float, *, is_true: bool) -> FindingReport:
    return FindingReport(
        classifier="operations-61-control-20",
        control=True,
        size=480,
        operation="haze",
        level=5,
        object_class=object_class,
        loss=about(0.2),
        true=about(true),
        is_true=is_true,
    )


PLANTED = PlantedReport(
    classifier="operations-61-taught-1",
    operation="darker",
    from_level=3,
    scope="circumstance",
    circumstance=("background", "sand"),
    by_level={3: about(0.8)},
    true=about(0.8),
    planted=True,
    found={96: False},
    said_from={96: None},
)
LEVEL = LevelReport(
    classifier="operations-61-taught-0",
    operation="fog",
    draw=0,
    level=2.61,
    low=2.5,
    high=None,
    true=2.5,
    in_full=True,
    classifications=480,
    of_grid=480,
)
RUN = RunReport(
    classifier="operations-61-taught-1",
    control=False,
    image_set=1,
    size=96,
    accuracy=proportion(90, 96),
    true_accuracy=0.95,
    figures=24,
    class_tests=0,
    findings=3,
    false=0,
    intervals=66,
    covered=64,
    covered_plainly=62,
)


@pytest.fixture
def page(tmp_path: Path) -> str:
    file = tmp_path / "record.json"
    record = TransformsValidity(
        seed=61,
        classifiers=14,
        controls=8,
        taught=40,
        planned=44,
        fresh=2000,
        aims=[],
        figures={96: figures(0.7, 0.1), 480: figures(0.8, 0.6)},
        failure_points=FailurePoints(
            loss=0.1, images=96, near=about(0.9), held=about(0.95), asked=0.52, levels=[LEVEL, LEVEL]
        ),
        planted=[PLANTED],
        findings=[finding("fly", 0.02, is_true=False), finding("", 0.3, is_true=True)],
        runs=[RUN],
        cells={},
    )
    file.write_text(record.text(), encoding="utf-8")
    return operations_page(file)


def test_the_page_begins_with_each_recall_at_the_images_that_it_is_asked_for(page: str) -> None:
    assert "Runs of 96 images find 0.70 (0.60 to 0.80) (n = 17) of the planted" in page
    assert "of a whole model and 0.60 (0.50 to 0.70) (n = 9) of those of one class" in page
    assert page.count("of those of one class") == 1
    assert "1 of 44 runs, 1 sets of images" in page
    assert "0 (whole, from 0.3), 0 (class, from 0.5), 1 (circumstance, from 0.3)" in page


def test_a_sensitivity_that_no_run_was_asked_for_is_not_called_missed(page: str) -> None:
    where = "| operations-61-taught-1 | darker | 3 | background sand | 0.80 (0.70 to 0.90) | yes |"
    assert f"{where} no | - |" in page


def test_the_levels_of_a_loss_stand_beside_the_true_one(page: str) -> None:
    assert "| intervals of levels that hold the true one | ≥ 0.93 | 0.950 (0.850 to 1.050) | 8 |" in page
    said = "2.61 (2.50 to beyond)"
    assert f"| operations-61-taught-0 | fog | 2.50 | {said}, {said} | 2 |" in page


def test_only_false_findings_are_listed(page: str) -> None:
    told = (
        "| operations-61-control-20 | 480 | haze | 5 | fly | 0.20 (0.10 to 0.30) | 0.020 (-0.080 to 0.120) |"
    )
    assert told in page
    assert page.count("| haze |") == 1
