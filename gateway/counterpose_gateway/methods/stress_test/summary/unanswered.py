"""The images on which a classifier of a stress test failed, though others answered."""

from __future__ import annotations

from counterpose_core.contract.stress_tests import Unanswered
from counterpose_gateway.methods.stress_test.columns import ItemColumns


def count_unanswered(columns: ItemColumns) -> list[Unanswered]:
    """Count the kept images without an answer of each classifier, the most often first."""
    found = [
        Unanswered(
            classifier=classifier,
            images=told.total(),
            of=columns.sums.predicted,
            detail=told.most_common(1)[0][0],
        )
        for classifier, told in columns.sums.unanswered.items()
    ]
    return sorted(found, key=lambda one: (-one.images, one.classifier))
