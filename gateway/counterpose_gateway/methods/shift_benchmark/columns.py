"""What a benchmark's summary needs of its images, as columns of numbers: some hundred bytes an image.

The images on which a classifier of a benchmark failed, though others answered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpose_core.contract.shift_benchmark_summary import ImageSourceSummary, UnansweredImages
from counterpose_core.contract.shift_benchmarks import ImageSourceOrReal
from counterpose_core.statistics.coded import Flags, Floats, Ints
from counterpose_core.types import BlobRef, Cost, ItemState
from counterpose_gateway.summaries.columns import NONE, Codes

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


UNANSWERED = 2
"""The answer of a model that failed on an image; 1 is a right answer, 0 a wrong one."""

_NOTHING: Mapping[str, Any] = {}


class Usage:
    """What one image source used: its cost, the weights behind each name, its lists of unsearched images."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.weights: dict[str, set[str]] = {}
        self.unsearched: set[BlobRef] = set()
        self._costs: Counter[str] = Counter()

    @property
    def cost(self) -> Cost:
        """The cost of all items."""
        return Cost.model_validate(self._costs)

    def add(self, result: Mapping[str, Any]) -> None:
        """Add the usage of one item by its recorded result."""
        self._costs.update(result.get("cost", _NOTHING))
        self.seconds.update(result.get("service_seconds", _NOTHING))
        for name, model in result.get("models", _NOTHING).items():
            self.weights.setdefault(name, set()).add(model)
        if (unsearched := result.get("unsearched")) is not None:
            self.unsearched.add(unsearched)


@dataclass(frozen=True, eq=False)
class ImageColumns:
    """The items of a run in planned order; the names of codes are in the `Codes` of the same name.

    ``made`` are those that have an image. Similarities are NaN where there is none; ``plain`` is that of a
    real image with its class in plain words. ``told`` (items, models) are answers. ``group`` is that of
    images which are not independent, such as frames of one video; ``repeated`` of the ``retrieved`` images
    count once with another one.
    """

    image_source: Ints
    condition: Ints
    class_index: Ints
    slot: Ints
    state: Ints
    reason: Ints
    code: Ints
    group: Ints
    made: Flags
    to_object: Floats
    plain: Floats
    to_shift: Floats
    told: NDArray[np.uint8]
    names: Mapping[str, Codes]
    usage: Mapping[ImageSourceOrReal, Usage]
    failures: Failures
    retrieved: int
    repeated: int

    def __len__(self) -> int:
        return len(self.made)

    def rows(self, image_source: ImageSourceOrReal) -> Ints:
        """The places of the items of one image source."""
        return np.flatnonzero(self.image_source == self.names["image_source"].find(image_source))

    def of_state(self, rows: Ints, state: ItemState) -> Ints:
        """Those of these rows whose items are in a state."""
        return np.asarray(rows[self.state[rows] == self.names["state"].find(state)])

    def counted(self, column: str, rows: Ints) -> dict[str, int]:
        """How many of these rows have each name of a column, in the order in which they first occur."""
        codes: Ints = getattr(self, column)[rows]
        return {self.name(column, code): count for code, count in Counter(codes.tolist()).items()}

    def name(self, column: str, code: int) -> str:
        """The name of a code of a column; ``unknown`` where it is missing."""
        return "unknown" if code == NONE else self.names[column].names[code]

    def right(self, rows: Ints) -> Flags:
        """Whether each model's best class is the image's own (rows, models); False where it has no answer."""
        return np.asarray(self.told[rows] == 1)

    def answered(self, rows: Ints) -> Flags:
        """Whether each model answered on the image (rows, models)."""
        return np.asarray(self.told[rows] != UNANSWERED)
