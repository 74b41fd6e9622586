"""The image filter: keep generated images that show their class and their shift, by stored similarities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpose_core.errors import InvalidRequest
from counterpose_core.images.clip_metrics import cosines
from counterpose_core.shift_benchmark.shifts import BASE
from counterpose_core.statistics.bootstrap import Flags, proportion
from counterpose_core.types import Estimate

LEAST_IMAGES = 5
"""A class counts under a shift only if at least this many images are kept (DI, A.5)."""


@dataclass(frozen=True)
class Verdicts:
    """The filter's results for each image, as flags (conditions, classes, images).

    A condition is `BASE` or a shift. ``made`` says which images exist.
    """

    conditions: tuple[str, ...]
    classes: tuple[str, ...]
    made: Flags
    has_object: Flags
    has_shift: Flags

    @cached_property
    def kept(self) -> Flags:
        """Images that pass both criteria."""
        return np.asarray(self.made & self.has_object & self.has_shift)


@dataclass(frozen=True)
class ImageScores:
    """Stored similarities (conditions, classes, images) to the captions of each image's class and shift.

    ``checkpoint`` names the CLIP. Similarities of images that were not ``made``, and those to the shift of
    `BASE`, have no meaning.
    """

    checkpoint: str
    conditions: tuple[str, ...]
    classes: tuple[str, ...]
    made: Flags
    to_object: NDArray[np.floating]
    to_shift: NDArray[np.floating]

    def __post_init__(self) -> None:
        shapes = {self.made.shape, self.to_object.shape, self.to_shift.shape}
        if len(shapes) > 1 or self.made.shape[:2] != (len(self.conditions), len(self.classes)):
            named = f"{len(self.conditions)} conditions and {len(self.classes)} classes"
            raise InvalidRequest(f"the scores of {named} have different shapes: {sorted(shapes)}")
        cosines(self.to_object[self.made], "an image")
        shifted = np.array([name != BASE for name in self.conditions], dtype=np.bool_)
        cosines(self.to_shift[shifted][self.made[shifted]], "an image")


@dataclass(frozen=True)
class FilterThresholds:
    """The least similarities that pass, for one CLIP.

    ``objects`` has the shape (classes,) or, because styles have their own captions, (conditions, classes).
    ``shifts`` maps each shift to its threshold, or to None if no threshold was good enough: nothing passes.
    """

    checkpoint: str
    objects: ArrayLike
    shifts: Mapping[str, float | None]


def judge(scores: ImageScores, thresholds: FilterThresholds) -> Verdicts:
    """Compare stored scores with thresholds, without generating or embedding again (DI, section 3.1).

    Raises:
        InvalidRequest: the thresholds are for another CLIP, or a shift has no threshold.
    """
    if thresholds.checkpoint != scores.checkpoint:
        raise InvalidRequest(
            f"the thresholds are for {thresholds.checkpoint!r}, but the scores are by {scores.checkpoint!r}; "
            "choose thresholds for that checkpoint"
        )
    missing = [name for name in scores.conditions if name not in (BASE, *thresholds.shifts)]
    if missing:
        raise InvalidRequest(f"the shift {missing[0]!r} has no threshold; set one for it")
    least = np.array([_least(name, thresholds.shifts) for name in scores.conditions])[:, None, None]
    objects = np.broadcast_to(np.asarray(thresholds.objects, dtype=np.float64), scores.made.shape[:2])
    return Verdicts(
        conditions=scores.conditions,
        classes=scores.classes,
        made=scores.made,
        has_object=np.asarray(scores.made & (scores.to_object >= objects[:, :, None])),
        # The base has no shift to show, and its scores may be NaN.
        has_shift=np.asarray(scores.made & ((least == -np.inf) | (scores.to_shift >= least))),
    )


def _least(condition: str, thresholds: Mapping[str, float | None]) -> float:
    if condition == BASE:
        return -np.inf
    threshold = thresholds[condition]
    return np.inf if threshold is None else threshold


@dataclass(frozen=True)
class Yield:
    """The numbers of images that were made and that failed each criterion."""

    made: int
    without_object: int
    without_shift: int
    without_both: int
    share: Estimate

    @property
    def kept(self) -> int:
        """The number of images that pass."""
        return self.made - self.without_object - self.without_shift - self.without_both


@dataclass(frozen=True)
class ConditionYield:
    """The yield of one condition, in total and by class.

    ``thin`` names the classes that are left out because images were made but too few are kept.
    """

    total: Yield
    by_class: Mapping[str, Yield]
    thin: tuple[str, ...]


def yields(verdicts: Verdicts, *, least: int = LEAST_IMAGES) -> dict[str, ConditionYield]:
    """Return how many images of each condition were kept (DI, Table 1) and which criterion others failed."""
    counts = np.stack(
        [
            flags.sum(axis=2)
            for flags in (
                verdicts.made,
                verdicts.made & ~verdicts.has_object & verdicts.has_shift,
                verdicts.made & verdicts.has_object & ~verdicts.has_shift,
                verdicts.made & ~verdicts.has_object & ~verdicts.has_shift,
            )
        ],
        axis=-1,
    )
    return {
        name: _condition(verdicts.classes, counts[index], least)
        for index, name in enumerate(verdicts.conditions)
    }


def _condition(classes: Sequence[str], counts: NDArray[np.integer], least: int) -> ConditionYield:
    by_class = {name: _yield(row) for name, row in zip(classes, counts, strict=True)}
    thin = tuple(name for name, each in by_class.items() if each.made > 0 and each.kept < least)
    return ConditionYield(total=_yield(counts.sum(axis=0)), by_class=by_class, thin=thin)


def _yield(counts: NDArray[np.integer]) -> Yield:
    made, without_object, without_shift, without_both = (int(count) for count in counts)
    kept = made - without_object - without_shift - without_both
    return Yield(made, without_object, without_shift, without_both, proportion(kept, made))
