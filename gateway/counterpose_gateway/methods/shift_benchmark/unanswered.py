"""The images on which a classifier of a benchmark failed, though others answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from counterpose_core.contract.shift_benchmark_summary import ImageSourceSummary, UnansweredImages
from counterpose_core.statistics.bootstrap import Flags

_UNKNOWN = "no reason was recorded"


class Failures:
    """How many images each classifier failed on, and why it failed on the first of them."""

    def __init__(self) -> None:
        self.asked = 0
        self.images: Counter[str] = Counter()
        self.first: dict[str, str] = {}

    def add(self, answers: Collection[str], reasons: Mapping[str, str], models: Sequence[str]) -> None:
        """Add an image that the classifiers were asked about: who answered, and why others did not."""
        self.asked += 1
        for model in models:
            if model not in answers:
                self.images[model] += 1
                self.first.setdefault(model, reasons.get(model, _UNKNOWN))


def summarize_unanswered(
    failures: Failures, image_sources: Mapping[str, ImageSourceSummary]
) -> list[UnansweredImages]:
    """List the classifiers that failed on images, the most often first.

    One without a figure under any shift gets the state ``cannot-tell``.
    """
    shifts = [shift for image_source in image_sources.values() for shift in image_source.shifts.values()]
    judged = {model for shift in shifts if shift.effect is not None for model in shift.effect.models}
    found = [
        UnansweredImages(
            classifier=model,
            images=images,
            of=failures.asked,
            detail=failures.first[model],
            state=None if model in judged else "cannot-tell",
        )
        for model, images in failures.images.items()
    ]
    return sorted(found, key=lambda one: (-one.images, one.classifier))


def count_unanswered(answered: Flags | None, kept: Flags, models: Sequence[str]) -> dict[str, int]:
    """Count the images in ``kept`` (...) that a model did not answer (..., models), of those with any."""
    if answered is None:
        return {}
    missing = (kept[..., None] & ~answered).reshape(-1, len(models)).sum(axis=0)
    return {model: int(count) for model, count in zip(models, missing, strict=True) if count}
