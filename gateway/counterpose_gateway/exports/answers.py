"""The classifiers' answers of an exported image."""

from __future__ import annotations

from collections.abc import Mapping

from counterpose_core.contract.runs import PredictionPair
from counterpose_gateway.exports.records import Answer


def answers_of(predictions: Mapping[str, PredictionPair]) -> dict[str, Answer]:
    """Return each classifier's most probable class, by the classifier's name."""
    return {
        name: Answer(label=found.top[0][0], probability=found.top[0][1])
        for name, found in predictions.items()
        if found.top
    }
