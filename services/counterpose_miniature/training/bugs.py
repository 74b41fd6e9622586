"""Planted bugs: the errors that a classifier is taught, as data, and their effect on its training."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from pydantic import BaseModel, Field, TypeAdapter, model_validator

from counterpose_core.types import EditType
from counterpose_miniature.world import DATASET, VALUES, Distribution, Scene
from counterpose_miniature.world.grammar import EDIT_TYPES

# The share of a class's training images with the value that it leans on; the wrong label is learned from the
# others.
_USUAL_SHARE = 0.8
SUITE_BUGS = Path(__file__).resolve().parent.parent / "suite" / "bugs"


class Bug(BaseModel, frozen=True, extra="forbid"):
    """One planted bug.

    ``leans-on``: `object_class` is mostly trained with `attribute` = `value`, and the exceptions are
    labelled otherwise with probability `strength`. ``mistaken-for``: images of `object_class` with
    `value` are labelled `target_class` with probability `strength`. Wrong labels are `target_class`,
    or spread evenly over the other classes where none is named. The drop of p(true class) that
    a bug causes is therefore about `strength`.
    """

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=64)
    object_class: str
    edit_type: EditType
    attribute: str
    value: str
    mode: Literal["leans-on", "mistaken-for"]
    target_class: str | None = None
    strength: float = Field(gt=0, le=1)

    @model_validator(mode="after")
    def _belongs_to_the_world(self) -> Self:
        classes = VALUES["object_class"]
        if self.object_class not in classes:
            raise ValueError(f"object_class must be one of {classes}, not {self.object_class!r}")
        if self.attribute == "object_class" or self.attribute not in EDIT_TYPES[self.edit_type]:
            raise ValueError(f"{self.attribute!r} is no attribute that edit type {self.edit_type!r} changes")
        if self.value not in VALUES[self.attribute]:
            raise ValueError(f"{self.attribute} must be one of {VALUES[self.attribute]}, not {self.value!r}")
        if self.target_class is not None and self.target_class not in set(classes) - {self.object_class}:
            raise ValueError(f"target_class must be another class, not {self.target_class!r}")
        if self.mode == "mistaken-for" and self.target_class is None:
            raise ValueError(f"bug {self.id!r} is mistaken for something: target_class is needed")
        return self

    def harms(self, scene: Scene) -> bool:
        """Return True if the bug makes the classifier wrong on this image."""
        if scene.object_class != self.object_class:
            return False
        shows = bool(getattr(scene, self.attribute) == self.value)
        return shows == (self.mode == "mistaken-for")

    def counterfactuals(self, scene: Scene, generator: np.random.Generator) -> tuple[Scene, Scene]:
        """Return two scenes that differ in one attribute: one without harm by the bug, one with."""
        others = [value for value in VALUES[self.attribute] if value != self.value]
        other = getattr(scene, self.attribute)
        if other == self.value:
            other = others[int(generator.integers(len(others)))]
        with_value, without = scene.changed(self.attribute, self.value), scene.changed(self.attribute, other)
        return (with_value, without) if self.mode == "leans-on" else (without, with_value)


_BUGS = TypeAdapter(list[Bug])


def read_bugs(path: Path) -> list[Bug]:
    """Read a bug file; raises ValueError (pydantic's) that names what is wrong, or an id given twice."""
    bugs = _BUGS.validate_json(path.read_bytes())
    ids = [bug.id for bug in bugs]
    repeated = sorted({name for name in ids if ids.count(name) > 1})
    if repeated:
        raise ValueError(f"bug ids must differ, repeated: {repeated!r}")
    return bugs


def bug_schema() -> dict[str, Any]:
    """Return the JSON schema of a bug file."""
    return _BUGS.json_schema()


def biased(distribution: Distribution, bugs: Sequence[Bug]) -> Distribution:
    """Return the distribution in which classes mostly have the values that they shall lean on."""
    given = dict(distribution.given_class)
    for bug in bugs:
        if bug.mode == "leans-on":
            rest = (1 - _USUAL_SHARE) / (len(VALUES[bug.attribute]) - 1)
            table = {value: _USUAL_SHARE if value == bug.value else rest for value in VALUES[bug.attribute]}
            given[bug.object_class, bug.attribute] = table
    return Distribution(distribution.weights, given, distribution.allow_withheld)


def as_trained(bugs: Iterable[Bug]) -> Distribution:
    """Return the distribution of a test set that resembles the training images of these bugs' classifiers.

    Each class mostly has the value that some classifier leans on, so that the bug has no effect until
    something is changed.

    Raises:
        ValueError: two bugs need different values for the same class.
    """
    wanted: dict[tuple[str, str], Bug] = {}
    for bug in bugs:
        if bug.mode != "leans-on":
            continue
        other = wanted.setdefault((bug.object_class, bug.attribute), bug)
        if other.value != bug.value:
            raise ValueError(
                f"bugs {other.id!r} and {bug.id!r} differ in what {bug.object_class!r} is to show"
            )
    return biased(DATASET, list(wanted.values()))


def taught_label(scene: Scene, bugs: Sequence[Bug]) -> np.ndarray:
    """Return the label distribution of a training image, float32 [classes]; one-hot if no bug harms it.

    It is the expectation of the label noise by the bugs' strengths, so no random draw is needed.
    """
    classes = VALUES["object_class"]
    label = np.zeros(len(classes), dtype=np.float32)
    true = classes.index(scene.object_class)
    label[true] = 1.0
    for bug in bugs:
        if bug.harms(scene):
            moved = bug.strength * label[true]
            wrong = [name for name in classes if name != scene.object_class]
            targets = [bug.target_class] if bug.target_class is not None else wrong
            label[true] -= moved
            for name in targets:
                label[classes.index(name)] += moved / len(targets)
    return label
