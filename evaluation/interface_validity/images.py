"""What is known about generated images, and the tables that figures are computed from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from counterpose_core.shift_benchmark.answers import ModelAnswers
from counterpose_core.types import Cost

from .confounding import ImageSourceAnswers

ImageSource = Literal["token", "class-name"]
Seen = Mapping[str, str]
"""Attribute values that the oracle sees in an image."""


@dataclass(frozen=True)
class Image:
    """One generated image of a benchmark: its request, and the answers of CLIP, classifiers and oracle.

    ``shift`` is a condition's name, the base included. ``right`` says for each classifier whether its answer
    is the class. ``has_object`` and ``has_shift`` are the filter's verdicts. The
    shared cost of the images of one ``group`` is booked on one of them.
    """

    id: str
    image_source: ImageSource
    class_name: str
    shift: str
    seed: int
    to_object: float
    right: Mapping[str, bool]
    seen: Seen
    has_object: bool = True
    has_shift: bool = True
    group: str = ""
    cost: Cost = field(default_factory=Cost)


@dataclass(frozen=True)
class Layout:
    """The order in which conditions, classes and models stand in tables."""

    conditions: tuple[str, ...]
    classes: tuple[str, ...]
    models: tuple[str, ...]


@dataclass(frozen=True)
class Placed:
    """Images of one image source by condition, class and position (a seed of the class); None is a gap."""

    layout: Layout
    table: NDArray[np.object_]

    def values(self, of: Callable[[Image], float], missing: float = np.nan) -> NDArray[np.float64]:
        """Return one number an image, in the table's shape."""
        flat = [missing if one is None else of(one) for one in self.table.ravel()]
        return np.array(flat, dtype=np.float64).reshape(self.table.shape)

    @property
    def made(self) -> NDArray[np.bool_]:
        """Whether there is an image at each position."""
        return np.array([one is not None for one in self.table.ravel()], dtype=np.bool_).reshape(
            self.table.shape
        )

    def answers(self, kept: NDArray[np.bool_] | None = None) -> ModelAnswers:
        """The models' answers, on the images that a filter kept or on all."""
        right = np.stack(
            [self.values(partial(_is_right, model), 0.0) for model in self.layout.models],
            axis=-1,
        )
        return ModelAnswers(
            models=self.layout.models,
            conditions=self.layout.conditions,
            classes=self.layout.classes,
            values=right.astype(np.bool_),
            made=self.made,
            kept=self.made if kept is None else np.asarray(self.made & kept),
        )


def _is_right(model: str, one: Image) -> bool:
    if model not in one.right:
        raise ValueError(f"{model} did not answer image {one.id}: every classifier has to, here")
    return one.right[model]


def placed(images: Iterable[Image], image_source: ImageSource, layout: Layout) -> Placed:
    """Lay out the images of one image source, seeds in rising order.

    Raises:
        ValueError: two images have the same position.
    """
    mine = [one for one in images if one.image_source == image_source]
    seeds = {name: sorted({one.seed for one in mine if one.class_name == name}) for name in layout.classes}
    shape = (len(layout.conditions), len(layout.classes), max(map(len, seeds.values()), default=0))
    table = np.full(shape, None, dtype=np.object_)
    for one in mine:
        if one.shift not in layout.conditions or one.class_name not in layout.classes:
            continue
        at = (
            layout.conditions.index(one.shift),
            layout.classes.index(one.class_name),
            seeds[one.class_name].index(one.seed),
        )
        if table[at] is not None:
            raise ValueError(f"{one.id!r} and {table[at].id!r} are the same image of {image_source!r}")
        table[at] = one
    return Placed(layout, table)


def simulated_answers(answers: ModelAnswers, classes: Collection[str] | None = None) -> ImageSourceAnswers:
    """The answers of some classes under the shifts, without the base."""
    wanted = [classes is None or name in classes for name in answers.classes]
    return ImageSourceAnswers(answers.values[1:, wanted], answers.kept[1:, wanted])


def of_classes(images: Sequence[Image], classes: Collection[str]) -> list[Image]:
    """The images of these classes."""
    return [one for one in images if one.class_name in classes]
