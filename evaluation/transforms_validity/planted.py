"""The sensitivities that classifiers are taught: from a level of an operation on, a class is another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeVar

import numpy as np

from counterpose_core.suite import load_suite
from counterpose_core.transforms.table import OPERATIONS
from counterpose_miniature.world.scene import VALUES, Scene

SUITE = "photographs"
CLASSES = VALUES["object_class"]
# The suite's own, and the two of its families that the world has a use for besides.
_OWN = load_suite(SUITE).transforms
assert _OWN is not None
TESTED = (*_OWN.operations, "occlusion-bottom", "background-other-class")
"""The operations of every run: all are tested, so the screen chooses all of them."""
TESTED_LEVELS = tuple(_OWN.levels)
SIZES = FEW, MANY = (96, 480)
"""Images of a run: for the whole model, and, at 60 a class, for single classes."""
UNSEEN = ("flip-horizontal",)
"""Operations that no classifier of this world can see: it draws left and right alike."""

Scope = Literal["whole", "class", "circumstance"]
SHARES: dict[Scope, float] = {"whole": 0.5, "class": 0.25, "circumstance": 0.25}
"""Which share of the planted sensitivities is of the whole model, of one class, under one circumstance."""
FIRST_LEVELS = (2, 3, 4)
CIRCUMSTANCES = tuple(
    (attribute, value)
    for attribute in ("background", "weather", "companion", "style")
    for value in VALUES[attribute]
    if value not in ("clear", "none")
)
_STREAM = 0x5E25

T = TypeVar("T")


@dataclass(frozen=True)
class Sensitivity:
    """From ``level`` of an operation on, images are labelled as the class ``shift`` places further.

    Of one class alone where there is an ``object_class``, or only where an attribute has a value.
    """

    operation: str
    level: int
    shift: int
    object_class: str | None = None
    circumstance: tuple[str, str] | None = None

    @property
    def scope(self) -> Scope:
        """Of the whole model, of one class alone, or under one circumstance only."""
        if self.object_class is not None:
            return "class"
        return "whole" if self.circumstance is None else "circumstance"

    @property
    def tested_levels(self) -> list[int]:
        """The levels of a run at which it acts."""
        levels = TESTED_LEVELS if OPERATIONS[self.operation].levels > 1 else (1,)
        return [level for level in levels if level >= self.level]

    def meets(self, scene: Scene) -> bool:
        """Whether it acts on a scene at all."""
        if self.object_class is not None:
            return scene.object_class == self.object_class
        return self.circumstance is None or getattr(scene, self.circumstance[0]) == self.circumstance[1]

    def label(self, scene: Scene, operation: str, level: int) -> str | None:
        """The wrong label of an image of a scene, or None where it does not act."""
        if operation != self.operation or level < self.level or not self.meets(scene):
            return None
        return CLASSES[(CLASSES.index(scene.object_class) + self.shift) % len(CLASSES)]


@dataclass(frozen=True)
class Taught:
    """A classifier of a stretch: its number, and what it is taught; a control is taught nothing."""

    seed: int
    number: int
    sensitivities: tuple[Sensitivity, ...] = ()

    @property
    def name(self) -> str:
        """Its name, which says whether it is a control."""
        kind = "taught" if self.sensitivities else "control"
        return f"operations-{self.seed}-{kind}-{self.number}"

    def label(self, scene: Scene, operation: str, level: int) -> str:
        """The label that it learns for an image; the last sensitivity that acts decides."""
        found = [one.label(scene, operation, level) for one in self.sensitivities]
        return next((wrong for wrong in reversed(found) if wrong is not None), scene.object_class)

    @property
    def about(self) -> dict[str, Any]:
        """All that it is taught."""
        return asdict(self)


def roster_of(seed: int, classifiers: int, controls: int, planted: int) -> list[Taught]:
    """Draw the classifiers of a stretch: sensitivities dealt in turns, controls last.

    No classifier has two sensitivities to one operation.
    """
    generator = np.random.default_rng([seed, _STREAM])
    drawn = _drawn(generator, planted)
    while True:
        dealt = [drawn[int(at)] for at in generator.permutation(planted)]
        hands = [tuple(dealt[number::classifiers]) for number in range(classifiers)]
        if all(len({one.operation for one in hand}) == len(hand) for hand in hands):
            break
    taught = [Taught(seed, number, hand) for number, hand in enumerate(hands)]
    return taught + [Taught(seed, classifiers + number) for number in range(controls)]


def _drawn(generator: np.random.Generator, planted: int) -> list[Sensitivity]:
    """Operations, classes and circumstances come about equally often, in a drawn order."""
    counts = {scope: round(share * planted) for scope, share in SHARES.items()}
    counts["whole"] += planted - sum(counts.values())
    operations = _rounds([name for name in TESTED if name not in UNSEEN], planted, generator)
    classes = _rounds(CLASSES, counts["class"], generator)
    circumstances = _rounds(CIRCUMSTANCES, counts["circumstance"], generator)
    found = list[Sensitivity]()
    for number, operation in enumerate(operations):
        level = int(generator.choice(FIRST_LEVELS)) if OPERATIONS[operation].levels > 1 else 1
        shift = int(generator.integers(1, len(CLASSES)))
        left = number - counts["whole"]
        if left < 0:
            found.append(Sensitivity(operation, level, shift))
        elif left < counts["class"]:
            found.append(Sensitivity(operation, level, shift, object_class=classes[left]))
        else:
            given = circumstances[left - counts["class"]]
            found.append(Sensitivity(operation, level, shift, circumstance=given))
    return found


def _rounds(values: Sequence[T], count: int, generator: np.random.Generator) -> list[T]:
    drawn = list[T]()
    while len(drawn) < count:
        drawn += [values[int(at)] for at in generator.permutation(len(values))]
    return drawn[:count]
