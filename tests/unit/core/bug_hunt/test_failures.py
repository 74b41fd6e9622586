"""Criteria of failure: each on the same answers, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from counterpose_core.bug_hunt.failures import failures
from counterpose_core.contract.failure_criteria import (
    Criterion,
    LowConfidence,
    NoRelative,
    NotInTop,
    TakenFor,
    TopOne,
)
from counterpose_core.errors import InvalidRequest

CLASSES = ("fly", "bee", "plate", "boat", "sled")
PARENTS = {"fly": "insect", "bee": "insect"}
ANSWERS = np.array(
    [
        [0.60, 0.10, 0.10, 0.10, 0.10],
        [0.20, 0.50, 0.15, 0.10, 0.05],
        [0.15, 0.05, 0.50, 0.20, 0.10],
        [0.05, 0.08, 0.40, 0.27, 0.20],
    ]
)


@pytest.mark.paper("BUGS-EQ2-target")
@pytest.mark.paper("BUGS-S3-criteria")
@pytest.mark.parametrize(
    ("criterion", "failed"),
    [
        (TopOne(), [False, True, True, True]),
        (NotInTop(k=3), [False, False, False, True]),
        (NoRelative(), [False, False, False, True]),
        (LowConfidence(below=0.2), [False, False, True, True]),
        (TakenFor(target="bee"), [False, True, False, False]),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_each_criterion_says_what_fails(criterion: Criterion, failed: list[bool]) -> None:
    assert failures(criterion, ANSWERS, "fly", CLASSES, PARENTS).tolist() == failed


def test_a_relative_among_the_first_three_is_no_problem_of_the_paper() -> None:
    answers = np.array([[0.01, 0.30, 0.40, 0.20, 0.09]])
    assert failures(NotInTop(), answers, "fly", CLASSES, PARENTS).tolist() == [True]
    assert failures(NoRelative(), answers, "fly", CLASSES, PARENTS).tolist() == [False]
    assert failures(NoRelative(), answers, "fly", CLASSES, {}).tolist() == [True]


def test_classes_without_a_parent_are_not_one_family() -> None:
    answers = np.array([[0.4, 0.1, 0.3, 0.05, 0.15]])
    assert failures(NoRelative(), answers, "boat", CLASSES, PARENTS).tolist() == [True]


def test_equal_probabilities_are_ordered_as_the_classes() -> None:
    answers = np.full((1, 5), 0.2)
    assert failures(TopOne(), answers, "fly", CLASSES, PARENTS).tolist() == [False]
    assert failures(TopOne(), answers, "sled", CLASSES, PARENTS).tolist() == [True]


@pytest.mark.parametrize(
    ("criterion", "label", "told"),
    [
        (TopOne(), "cat", "no class 'cat'; it has bee, boat, fly, plate, sled"),
        (TakenFor(target="cat"), "fly", "no class 'cat'"),
        (TakenFor(target="fly"), "fly", "the target 'fly' is the label itself"),
    ],
)
def test_a_label_that_no_answer_can_have_is_refused(criterion: Criterion, label: str, told: str) -> None:
    with pytest.raises(InvalidRequest, match=told):
        failures(criterion, ANSWERS, label, CLASSES, PARENTS)
