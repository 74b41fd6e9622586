"""Answers that are a probability for each class of the dataset."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from counterpose_core.contract.classifiers import Prediction
from counterpose_core.errors import BadBackendOutput
from counterpose_core.statistics.coded import Floats

# Rounded probabilities sum to a little more than 1.
_MASS_SLACK = 1e-3
_SHOWN = 5


def class_probabilities(prediction: Prediction, classes: Sequence[str]) -> Floats:
    """Return the probability of each class (n,).

    Raises:
        BadBackendOutput: the number of probabilities is wrong, or they are not probabilities.
    """
    probabilities = np.asarray(prediction.probabilities, dtype=np.float64)
    if probabilities.shape != (len(classes),):
        raise BadBackendOutput(
            f"the classifier returned {probabilities.size} probabilities for {len(classes)} classes"
        )
    inside = np.all((probabilities >= -_MASS_SLACK) & (probabilities <= 1.0 + _MASS_SLACK))
    if not inside or not math.fsum(prediction.probabilities) <= 1.0 + _MASS_SLACK:
        raise BadBackendOutput("the classifier returned numbers that are not probabilities")
    return probabilities


def by_probability(probabilities: Floats) -> list[int]:
    """Return the places of the classes, most probable first; ties rank by the order of the classes."""
    # Stable, so that it is the same on every machine.
    return [int(place) for place in np.argsort(-probabilities, kind="stable")]


def most_probable(
    probabilities: Floats, order: Sequence[int], classes: Sequence[str]
) -> list[tuple[str, float]]:
    """Return the five most probable classes with their probabilities."""
    return [(classes[place], float(probabilities[place])) for place in order[:_SHOWN]]
