"""Models' answers on the images of a benchmark, by condition, class and seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterpose_core.errors import BadBackendOutput, InvalidRequest
from counterpose_core.shift_benchmark.shifts import BASE
from counterpose_core.statistics.bootstrap import Flags
from counterpose_core.statistics.stratified import Units, count_units


@dataclass(frozen=True)
class ModelAnswers:
    """Values (conditions, classes, images, models): whether the answer is right, or p(true class).

    The first condition is `BASE`, the others are shifts. An index along images is a seed: base and shifted
    images of a class are generated from the same seeds, so images with equal index are a pair. ``made`` and
    ``kept`` (conditions, classes, images) say which images exist and which passed the filter; the values of
    other images have no meaning. For 24 conditions, 1,000 classes, 50 images and 60 models, bools take 72 MB.

    ``units`` (conditions, classes, images) is the index of the first image of each one's group, in the base
    if that has the group; None if all images are independent.

    ``answered`` (conditions, classes, images, models) says which models have an answer on which image: where
    one failed, its value has no meaning. None if all models answered every kept image.
    """

    models: tuple[str, ...]
    conditions: tuple[str, ...]
    classes: tuple[str, ...]
    values: NDArray[np.bool_] | NDArray[np.floating]
    made: Flags
    kept: Flags
    units: Units | None = None
    answered: Flags | None = None

    def __post_init__(self) -> None:
        _check_names(self.models, "model")
        _check_names(self.conditions, "condition")
        _check_names(self.classes, "class")
        if self.conditions[:1] != (BASE,):
            raise InvalidRequest(f"the first condition must be {BASE!r}, not {self.conditions[0]!r}")
        expected = (len(self.conditions), len(self.classes), self.made.shape[-1], len(self.models))
        others = [self.made, self.kept] if self.units is None else [self.made, self.kept, self.units]
        shapes = [self.values.shape, *((*each.shape, len(self.models)) for each in others)]
        shapes += [] if self.answered is None else [self.answered.shape]
        if any(shape != expected for shape in shapes):
            raise InvalidRequest(f"the answers have the shape {self.values.shape}, not {expected}")
        if np.any(self.kept & ~self.made):
            first = tuple(int(index) for index in np.argwhere(self.kept & ~self.made)[0])
            raise InvalidRequest(f"the image at {first} is marked as kept but was never generated")
        # Other values mean a broken classifier, or scores instead of probabilities.
        told = self.values[self.kept if self.answered is None else self.kept[..., None] & self.answered]
        if told.dtype != np.bool_ and not np.all((told >= 0.0) & (told <= 1.0)):
            raise BadBackendOutput(
                "a classifier's answer is not a correctness of 0 or 1, nor a probability between them"
            )

    @property
    def shifts(self) -> tuple[str, ...]:
        """The conditions without the base."""
        return self.conditions[1:]

    def n_units(self, condition: int) -> NDArray[np.intp]:
        """Return the number of kept images of each class under a condition (classes,), a group being one."""
        return count_units(self.kept[condition], None if self.units is None else self.units[condition])

    def classes_where(self, flags: Flags) -> tuple[str, ...]:
        """Return the names of the classes whose flag (classes,) is true."""
        return tuple(name for name, flag in zip(self.classes, flags, strict=True) if flag)


def _check_names(names: Sequence[str], noun: str) -> None:
    if not names:
        raise InvalidRequest(f"the list of {noun}s is empty; a benchmark needs at least one")
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidRequest(f"the {noun} {twice!r} is listed twice; list it once")
