"""Bugs of two conditions: a classifier is wrong where both hold, and right where one does."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from counterpose_miniature.training.bugs import Bug
from counterpose_miniature.training.classifier import Order, train_classifier
from counterpose_miniature.training.stage import write_atomically
from counterpose_miniature.world.grammar import EDIT_TYPES
from counterpose_miniature.world.sampling import DATASET, Distribution
from counterpose_miniature.world.scene import VALUES, Scene
from evaluation.validity.contestants import WEIGHTS, Contestant

PER_CLASSIFIER = 3
STRENGTH = 0.9
STEPS = 900
"""Six times those of others: after 240, most cost 0.03 to 0.16 under one condition alone; after 600, some."""

_SHARE = 0.4
"""Of a class's training images, with each of the two values: one in six has both."""

_MENTIONED = ("background", "weather", "companion", "colour", "style")
_UNSAID = ("clear", "none")
_ARCHITECTURE = "test_resnet"


class TwoWayBug(Bug):
    """Images of a class with two values are labelled `target_class`; those with one of them are not."""

    also_attribute: str
    also_value: str

    def harms(self, scene: Scene) -> bool:
        """Return True if both values are there."""
        return super().harms(scene) and getattr(scene, self.also_attribute) == self.also_value

    def counterfactuals(self, scene: Scene, generator: np.random.Generator) -> tuple[Scene, Scene]:
        """Return two scenes with the second value, without and with the first."""
        return super().counterfactuals(scene.changed(self.also_attribute, self.also_value), generator)

    @property
    def conditions(self) -> frozenset[tuple[str, str]]:
        """Both attributes with their values."""
        return frozenset({(self.attribute, self.value), (self.also_attribute, self.also_value)})


@dataclass(frozen=True)
class TwoWayTraining:
    """A classifier with bugs of two conditions, or a control without any."""

    name: str
    bugs: tuple[TwoWayBug, ...]
    seed: int

    def contestant(self, folder: Path, work: Path) -> Contestant:
        """Train it where that was not done, going on from its checkpoint."""
        out = folder / self.name
        taught = json.dumps([bug.model_dump() for bug in self.bugs]).encode()
        done = out / "taught.json"
        if not ((out / WEIGHTS).exists() and done.exists() and done.read_bytes() == taught):
            order = Order(
                _ARCHITECTURE, self.bugs, self.seed, steps=STEPS, measured=40, shown=_shown(self.bugs)
            )
            train_classifier(order, out, work, logging.getLogger(self.name))
            write_atomically(done, taught)
        return Contestant(f"local:{self.name}", out, self.bugs)


def trainings(classifiers: int, controls: int, seed: int) -> list[TwoWayTraining]:
    """Draw the bugs of each classifier, one a class, and add the controls."""
    generator = np.random.default_rng([seed, 35])
    taught = [
        TwoWayTraining(f"two-way-{seed}-{number}", _drawn(generator, number), 9_000 + 100 * seed + number)
        for number in range(classifiers)
    ]
    return taught + [
        TwoWayTraining(f"two-way-control-{seed}-{number}", (), 9_050 + 100 * seed + number)
        for number in range(controls)
    ]


def _drawn(generator: np.random.Generator, number: int) -> tuple[TwoWayBug, ...]:
    classes = [str(name) for name in generator.permutation(VALUES["object_class"])]
    return tuple(
        _bug(generator, object_class, classes[place - 1], f"bug-{number}-{place}")
        for place, object_class in enumerate(classes[:PER_CLASSIFIER])
    )


def _bug(generator: np.random.Generator, object_class: str, target: str, name: str) -> TwoWayBug:
    first, second = (str(each) for each in generator.choice(_MENTIONED, 2, replace=False))
    values = [
        str(generator.choice([value for value in VALUES[attribute] if value not in _UNSAID]))
        for attribute in (first, second)
    ]
    edit_type = next(each for each, attributes in EDIT_TYPES.items() if first in attributes)
    return TwoWayBug.model_validate(
        {
            "id": name,
            "object_class": object_class,
            "edit_type": edit_type,
            "attribute": first,
            "value": values[0],
            "also_attribute": second,
            "also_value": values[1],
            "mode": "mistaken-for",
            "target_class": target,
            "strength": STRENGTH,
        }
    )


def _shown(bugs: Sequence[TwoWayBug]) -> Distribution | None:
    """Training images in which the values of a bug are frequent, as they are learned from these alone."""
    if not bugs:
        return DATASET
    given = dict(DATASET.given_class)
    for bug in bugs:
        for attribute, value in sorted(bug.conditions):
            rest = (1 - _SHARE) / (len(VALUES[attribute]) - 1)
            table = {each: _SHARE if each == value else rest for each in VALUES[attribute]}
            given[bug.object_class, attribute] = table
    return Distribution(DATASET.weights, given, DATASET.allow_withheld)
