"""The images on which a classifier of a stress test failed, though others answered."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from faultline_core.contract.runs import Item
from faultline_core.contract.stress_tests import Unanswered


def count_unanswered(items: Sequence[Item]) -> list[Unanswered]:
    """Count the kept images without an answer of each classifier, the most often first."""
    results = [item.result for item in items if item.state == "done" and item.result is not None]
    reasons: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for result in results:
        for classifier, detail in result.unanswered.items():
            reasons[classifier][detail] += 1
    predicted = sum(1 for result in results if result.predictions)
    found = [
        Unanswered(classifier=classifier, images=told.total(), of=predicted, detail=told.most_common(1)[0][0])
        for classifier, told in reasons.items()
    ]
    return sorted(found, key=lambda one: (-one.images, one.classifier))
