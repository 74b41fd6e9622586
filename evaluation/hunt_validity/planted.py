"""The bugs that the classifiers of a stretch are taught: a class under one circumstance is another class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from counterpose_miniature.training.bugs import Bug
from counterpose_miniature.world.grammar import EDIT_TYPES
from counterpose_miniature.world.scene import VALUES, WITHHELD

CLASSES = VALUES["object_class"]
UNREMARKABLE = {("weather", "clear"), ("companion", "none"), ("style", "photo")}
"""Values that captions do not mention, or that nearly all of them do: they are no circumstance."""
CIRCUMSTANCES = tuple(
    (attribute, value)
    for attribute in ("background", "weather", "companion", "style", "colour")
    for value in VALUES[attribute]
    if (attribute, value) not in UNREMARKABLE
)
STRENGTHS = (0.55, 0.75, 0.95)
"""How often the wrong label is taught."""
BUGS_OF_A_CLASSIFIER = 2
TAUGHT_BY_A_CONTROL = 2
"""Classifiers that go on learning from one control."""
_STREAM = 0xB06

T = TypeVar("T")


@dataclass(frozen=True)
class Taught:
    """A classifier: its name, its number in the stretch, the control it begins as, and its bugs."""

    name: str
    number: int
    begins_as: str | None
    bugs: tuple[Bug, ...]


def roster_of(stretch: int, controls: int) -> list[Taught]:
    """Return the controls of a stretch, and two classifiers that begin as each of them.

    Every class and every circumstance comes about equally often; which belong together is drawn from the
    stretch's own stream.
    """
    generator = np.random.default_rng([stretch, _STREAM])
    count = controls * TAUGHT_BY_A_CONTROL * BUGS_OF_A_CLASSIFIER
    classes = _shuffled(CLASSES, count, generator)
    told = _matched(classes, _shuffled(CIRCUMSTANCES, count, generator))
    found = [Taught(f"hunted-{stretch}-control-{n}", n, None, ()) for n in range(controls)]
    for number in range(controls * TAUGHT_BY_A_CONTROL):
        bugs = [
            _bug(*told[number + part * controls * TAUGHT_BY_A_CONTROL], generator, number + part)
            for part in range(BUGS_OF_A_CLASSIFIER)
        ]
        begins = found[number % controls].name
        found.append(Taught(f"hunted-{stretch}-taught-{number}", controls + number, begins, tuple(bugs)))
    return found


@dataclass(frozen=True)
class Planned:
    """A hunt for failures of one classifier on one label; ``bugs`` are those planted there."""

    taught: Taught
    label: str
    bugs: tuple[Bug, ...]

    @property
    def is_control(self) -> bool:
        """Whether the classifier was taught no bug at all."""
        return not self.taught.bugs


def planned_hunts(roster: Sequence[Taught], labels_of_a_control: int) -> list[Planned]:
    """Every label with a planted bug, and labels of each control in turns; mixed, so that a part has both."""
    bugs = [
        Planned(one, label, tuple(bug for bug in one.bugs if bug.object_class == label))
        for one in roster
        for label in dict.fromkeys(bug.object_class for bug in one.bugs)
    ]
    controls = [one for one in roster if not one.bugs]
    others = [
        Planned(one, CLASSES[(number + turn) % len(CLASSES)], ())
        for turn in range(labels_of_a_control)
        for number, one in enumerate(controls)
    ]
    every = [
        (at / len(part), kind, hunt)
        for kind, part in enumerate((bugs, others))
        for at, hunt in enumerate(part)
    ]
    return [hunt for *_, hunt in sorted(every, key=lambda each: each[:2])]


def _shuffled(values: Sequence[T], count: int, generator: np.random.Generator) -> list[T]:
    """``count`` values, each about equally often, those of a round in a drawn order."""
    drawn: list[T] = []
    while len(drawn) < count:
        drawn += [values[int(at)] for at in generator.permutation(len(values))]
    return drawn[:count]


def _matched(classes: Sequence[str], circumstances: Sequence[tuple[str, str]]) -> list[tuple[str, str, str]]:
    """Pair them in order; a class takes the first circumstance that the generator was shown with it."""
    left, found = list(circumstances), list[tuple[str, str, str]]()
    for name in classes:
        at = next(index for index, pair in enumerate(left) if (name, *pair) not in WITHHELD)
        found.append((name, *left.pop(at)))
    return found


def _bug(name: str, attribute: str, value: str, generator: np.random.Generator, turn: int) -> Bug:
    others = [other for other in CLASSES if other != name]
    edit_type = next(kind for kind, attributes in EDIT_TYPES.items() if attribute in attributes)
    return Bug(
        id=f"{name}-{value}",
        object_class=name,
        edit_type=edit_type,
        attribute=attribute,
        value=value,
        mode="mistaken-for",
        target_class=others[int(generator.integers(len(others)))],
        strength=STRENGTHS[turn % len(STRENGTHS)],
    )
