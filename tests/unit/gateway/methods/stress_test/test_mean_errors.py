"""The mean corruption error of a run: where its definition holds, and why not elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from counterpose_core.contract.recipes import IDENTITY
from counterpose_core.contract.runs import ItemResult, TransformedImage
from counterpose_core.contract.severity import SeverityPlan, SeveritySummary
from counterpose_core.contract.transforms import TransformPlan
from counterpose_core.stress_test.severity.mean_error import ALEXNET, ALEXNET_CLEAN
from counterpose_core.tasks.classification import ranked
from counterpose_core.text.imagenet_hierarchy import hierarchy
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.methods.stress_test.transforms.severity.answers import SeverityAnswers
from counterpose_gateway.methods.stress_test.transforms.severity.summary import _severity_summary

IMAGENET = sorted(set(hierarchy().called.values()))
GRID: Mapping[str, Sequence[int]] = dict.fromkeys(ALEXNET, (1, 2, 3, 4, 5))
IMAGES = 60
CLEAN = 40
"""Images that are right with nothing changed, in order."""


def right(number: int, level: int) -> bool:
    """A tenth of all images more fail at each level."""
    return number < CLEAN - 6 * level


def made(operation: str, level: int, number: int) -> TransformedImage:
    rank = 1 if right(number, level) else 2
    pair = ranked(0.5, rank, [])
    return TransformedImage(operation=operation, level=level, recipe="", predictions={"net": pair})


def summed(
    operations: Mapping[str, Sequence[int]] = GRID, classes: Sequence[str] = IMAGENET, **changes: Any
) -> SeveritySummary:
    severity = SeverityPlan(plan="grid", loss=0.1, full_share=1.0)
    plan = TransformPlan(
        operations={name: list(levels) for name, levels in operations.items()}, size=224, severity=severity
    ).model_copy(update=changes)
    request = SimpleNamespace(classifiers=["net"], seed=0)
    config: Any = SimpleNamespace(transforms=plan, groups={}, classes=list(classes), request=request)
    answers = SeverityAnswers(config)
    for number in range(IMAGES):
        images = [made(name, level, number) for name, levels in plan.operations.items() for level in levels]
        result = ItemResult(image="0" * 64, caption="", transformed=[made(IDENTITY, 0, number), *images])
        answers.add(f"{number:03}", "cat", 1, "done", result)
    return _severity_summary(answers, LanceEstimator(0), [])


def test_a_full_grid_of_imagenet_has_the_mean_corruption_error() -> None:
    told = summed()
    (found,) = told.mean_errors
    error = np.mean([1 - (CLEAN - 6 * level) / IMAGES for level in range(1, 6)])
    mce = np.mean([error / published for published in ALEXNET.values()])
    clean = 1 - CLEAN / IMAGES
    relative = np.mean([(error - clean) / (published - ALEXNET_CLEAN) for published in ALEXNET.values()])
    assert (found.name, told.why_no_mce, found.figure.n) == ("mean corruption error", None, IMAGES)
    assert found.figure.estimate == pytest.approx(mce)
    assert found.relative is not None
    assert found.relative.estimate == pytest.approx(relative)
    assert (found.figure.low or 9.0) < mce < (found.figure.high or 0.0)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"operations": {"fog": [1, 2, 3, 4, 5]}}, "the 15 corruptions of ImageNet-C"),
        ({"operations": {**GRID, "snow": [1, 3, 5]}}, "at their five levels"),
        ({"scaled": True}, "images of 224 pixels"),
        ({"classes": ["cat", "dog"]}, "the 1000 classes of ImageNet, and net answers 0 of these among 2"),
        ({"classes": [f"class {number}" for number in range(1000)]}, "the 1000 classes of ImageNet"),
    ],
)
def test_elsewhere_it_is_a_plain_mean_and_says_why(changes: dict[str, Any], why: str) -> None:
    told = summed(**changes)
    (found,) = told.mean_errors
    assert (found.name, found.relative) == ("mean error", None)
    assert why in (told.why_no_mce or "")
    assert found.figure.estimate is not None
    assert (found.figure.low or 0.0) <= found.figure.estimate <= (found.figure.high or 0.0)
