"""Stored predictions: the probability and rank of the true class, and the top five."""

from __future__ import annotations

import math

import pytest

from counterpose_core.contract.classifiers import Prediction
from counterpose_core.errors import BadBackendOutput
from counterpose_gateway.steps.predictions import prediction_pair

CLASSES = ["plate", "sled", "boat", "kite", "fly", "bee", "bus"]


def predicted(*probabilities: float) -> Prediction:
    """A classifier's answer over the classes."""
    return Prediction.model_construct(probabilities=list(probabilities), top=[], features=None)


@pytest.mark.paper("LANCE-D-top5-zero")
def test_the_true_class_has_a_probability_outside_the_top_five() -> None:
    pair = prediction_pair(predicted(0.3, 0.2, 0.15, 0.13, 0.12, 0.06, 0.04), "bus", CLASSES)
    assert (pair.p_true, pair.rank_true) == (0.04, 7)
    assert "bus" not in [name for name, _ in pair.top]


def test_the_top_five_are_sorted_and_named() -> None:
    pair = prediction_pair(predicted(0.04, 0.06, 0.12, 0.13, 0.15, 0.2, 0.3), "bus", CLASSES)
    assert pair.top == [("bus", 0.3), ("bee", 0.2), ("fly", 0.15), ("kite", 0.13), ("boat", 0.12)]
    assert pair.rank_true == 1


def test_equal_probabilities_rank_in_class_order() -> None:
    pair = prediction_pair(predicted(*[1 / 7] * 7), "boat", CLASSES)
    assert pair.rank_true == 3


def test_probabilities_may_sum_to_less_than_1() -> None:
    assert prediction_pair(predicted(*[0.01] * 7), "bee", CLASSES).p_true == 0.01


@pytest.mark.parametrize(
    "answer",
    [
        predicted(0.5, 0.5),
        predicted(*[0.1] * 8),
        predicted(*[0.5] * 7),
        predicted(1.2, *[0.0] * 6),
        predicted(-0.2, *[0.1] * 6),
        predicted(math.nan, *[0.1] * 6),
        predicted(math.inf, *[0.0] * 6),
    ],
)
def test_invalid_probabilities_are_bad_output(answer: Prediction) -> None:
    with pytest.raises(BadBackendOutput):
        prediction_pair(answer, "bus", CLASSES)
