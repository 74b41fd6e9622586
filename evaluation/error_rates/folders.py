"""Simulated folders: images with attributes, classifiers with planted bugs, and images hurt by accident."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy import special

from counterpose_core.types import EDIT_TYPES, EditType

CLASSES = tuple(f"class{number}" for number in range(8))
CLASSIFIERS = ("able", "good", "fair", "poor")
EDIT_SURVIVES, PLACEBO_SURVIVES = 0.80, 0.93

_VALUES = (0.5, 0.25, 0.25)
"""Half of the images have the commonest value of an attribute."""

ODD = 0.005
_BUG, _HIT = 5.0, 0.85
_OF_IMAGE, _OF_CLASSIFIER, _OF_DRAW = 0.5, 0.25, 0.7


class Bug(NamedTuple):
    """A classifier that needs one value of one attribute on one class."""

    classifier: str
    object_class: str
    edit_type: EditType
    value: int


@dataclass
class Photo:
    """An image: its class, the value of each attribute, what makes it hard, and what each change costs it.

    ``effects`` are log odds by classifier and attribute. They are the same in every draw of the image.
    """

    number: int
    object_class: str
    values: dict[EditType, int]
    difficulty: float
    inversion: float
    effects: dict[tuple[str, EditType], float] = field(default_factory=dict)


@dataclass
class Folder:
    """Draws photos, and the answers to their placebos and edits; ``odd`` photos lose without any bug.

    Args:
        generator: draws everything.
        images: photos in all, spread evenly over eight classes.
        n_bugs: bugs that are planted; a frequent value has more of them.
        odd: the share of photos that a change costs one classifier by accident, whatever the draw.
    """

    generator: Generator
    images: int
    n_bugs: int = 9
    odd: float = ODD

    def __post_init__(self) -> None:
        self.bugs: set[Bug] = set()
        while len(self.bugs) < self.n_bugs:
            edit_type = EDIT_TYPES[self.generator.integers(len(EDIT_TYPES))]
            classifier = CLASSIFIERS[self.generator.integers(len(CLASSIFIERS))]
            object_class = CLASSES[self.generator.integers(len(CLASSES))]
            self.bugs.add(Bug(classifier, object_class, edit_type, self._value()))
        self.photos = [self._photo(number) for number in range(self.images)]

    def _value(self) -> int:
        return int(self.generator.choice(len(_VALUES), p=_VALUES))

    def _photo(self, number: int) -> Photo:
        values = {edit_type: self._value() for edit_type in EDIT_TYPES}
        difficulty, inversion = self.generator.normal(), 0.5 * self.generator.normal()
        photo = Photo(number, CLASSES[number % len(CLASSES)], values, difficulty, inversion)
        for edit_type in EDIT_TYPES:
            common = _OF_IMAGE * self.generator.normal()
            for classifier in CLASSIFIERS:
                effect = common + _OF_CLASSIFIER * self.generator.normal()
                effect -= _BUG * self._is_hit(classifier, photo, edit_type)
                photo.effects[classifier, edit_type] = effect
        return photo

    def _is_hit(self, classifier: str, photo: Photo, edit_type: EditType) -> bool:
        bug = Bug(classifier, photo.object_class, edit_type, photo.values[edit_type])
        if bug in self.bugs:
            return bool(self.generator.random() < _HIT)
        return bool(self.generator.random() < self.odd)

    def survives(self, photo: Photo, share: float) -> bool:
        """Whether an image passes its gate: images of difficult photos do less often."""
        return bool(self.generator.random() < share - 0.1 * np.tanh(photo.difficulty))

    def answer(self, classifier: str, photo: Photo, changed: EditType | None = None) -> float:
        """p(true class) of a placebo, or of an edit that changes an attribute, in noise of its own."""
        odds = 5.0 - 0.5 * CLASSIFIERS.index(classifier) - 0.8 * photo.difficulty + photo.inversion
        odds += _OF_DRAW * self.generator.normal()
        odds += 0.0 if changed is None else photo.effects[classifier, changed]
        return float(np.float16(special.expit(odds)))
