"""A simulated stress test of two stages: source images, edits with noise, planted bugs, and the whole rule.

The world is that of the audit of the statistics: p(true class) is the logistic of the source image's
difficulty, the classifier's ability, noise of the inversion (shared by an image's placebo and edits) and one
draw of generator noise an image. Most edits and placebos survive their gate, those of difficult images less
often.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from counterpose_core.stress_test.confirmation import (
    LOOK_PAIRS,
    MOST_PAIRS,
    ConfirmationTest,
    PairColumns,
    confirm,
    is_futile,
)
from counterpose_core.stress_test.screening import Candidate, Change, choose_hypotheses, rank_candidates
from counterpose_core.types import EDIT_TYPES, EditType
from evaluation.reference.plain_figures import mean_losses

CLASSES = tuple(f"class{number}" for number in range(8))
CLASSIFIERS = ("able", "good", "fair", "poor")
VALUES, ADDED = 3, 4
EDIT_SURVIVES, PLACEBO_SURVIVES = 0.85, 0.95
BUG, HIT = 5.0, 0.85
IMAGES_PER_SOURCE = 7

Noise = Literal["normal", "rare"]


@dataclass(frozen=True)
class Bug:
    """A classifier that needs one value of one factor on one class."""

    classifier: str
    object_class: str
    edit_type: EditType
    value: str

    @property
    def change(self) -> Change:
        """The change that shows it."""
        return Change(self.object_class, self.edit_type, self.value, "")


@dataclass(frozen=True)
class Photo:
    """A source image: its class, its value of each factor, and what makes it hard."""

    number: int
    object_class: str
    values: dict[EditType, str]
    difficulty: float
    inversion: float


@dataclass
class World:
    """Draws photos, edits and answers; ``bugs`` are planted at random."""

    generator: np.random.Generator
    n_bugs: int = 9
    noise: Noise = "normal"
    drawn: int = 0
    bugs: set[Bug] = field(default_factory=set)

    def __post_init__(self) -> None:
        while len(self.bugs) < self.n_bugs:
            edit_type = EDIT_TYPES[self.generator.integers(len(EDIT_TYPES))]
            classifier, object_class = self.one_of(CLASSIFIERS), self.one_of(CLASSES)
            self.bugs.add(Bug(classifier, object_class, edit_type, self.value(edit_type)))

    def one_of(self, names: tuple[str, ...]) -> str:
        """Draw a name."""
        return names[self.generator.integers(len(names))]

    def value(self, edit_type: EditType) -> str:
        """Draw a value of a factor."""
        return f"{edit_type}{self.generator.integers(VALUES)}"

    def photo(self, object_class: str, change: Change | None = None) -> Photo:
        """Draw a photo of a class, one that ``change`` applies to."""
        self.drawn += 1
        values = {edit_type: self.value(edit_type) for edit_type in EDIT_TYPES}
        if change is not None and change.removed:
            values[change.edit_type] = change.removed
        return Photo(self.drawn, object_class, values, self.generator.normal(), self.generator.normal(0, 0.5))

    def survives(self, photo: Photo, share: float) -> bool:
        """Whether an image passes its gate: images of difficult photos do less often."""
        return bool(self.generator.random() < share - 0.1 * np.tanh(photo.difficulty))

    def answer(self, classifier: str, photo: Photo, broken: EditType | None = None) -> float:
        """p(true class) of a placebo, or of an edit that changes the factor ``broken``."""
        logit = 5.0 - 0.5 * CLASSIFIERS.index(classifier) - 0.8 * photo.difficulty + photo.inversion
        if self.noise == "normal":
            logit += self.generator.normal(0, 0.7)
        elif self.generator.random() < 0.1:
            logit -= self.generator.exponential(4.0)
        if broken is not None:
            bug = Bug(classifier, photo.object_class, broken, photo.values[broken])
            logit -= BUG * (bug in self.bugs and self.generator.random() < HIT)
        return float(np.float16(1.0 / (1.0 + np.exp(-logit))))

    def confirm_pair(self, candidate: Candidate) -> float | None:
        """A fresh photo's loss, or None where its edit or its placebo is dropped."""
        change = candidate.change
        photo = self.photo(change.object_class, change)
        kept = [self.survives(photo, share) for share in (EDIT_SURVIVES, PLACEBO_SURVIVES)]
        placebo = self.answer(candidate.classifier, photo)
        loss = placebo - self.answer(candidate.classifier, photo, change.edit_type)
        return loss if all(kept) else None


@dataclass(frozen=True)
class Outcome:
    """The hypotheses of a run with their tests and, beside each, whether its bug exists."""

    tests: list[tuple[Candidate, ConfirmationTest, bool]]
    bugs: int

    @property
    def found(self) -> int:
        """Bugs that were confirmed, each once."""
        named = (candidate for candidate, test, true in self.tests if test.confirmed and true)
        return len({(each.classifier, each.change) for each in named if each.change.removed})

    @property
    def false(self) -> int:
        """Confirmed changes without a bug."""
        return sum(test.confirmed and not true for _, test, true in self.tests)


def screen(world: World, n_sources: int) -> list[Candidate]:
    """Make the edits of the screen and group them by words, one classifier at a time."""
    groups: dict[tuple[str, Change], list[tuple[int, float]]] = {}
    for index in range(n_sources):
        photo = world.photo(CLASSES[index % len(CLASSES)])
        has_placebo = world.survives(photo, PLACEBO_SURVIVES)
        control = {classifier: world.answer(classifier, photo) for classifier in CLASSIFIERS}
        if not has_placebo:
            control = {classifier: world.answer(classifier, photo) for classifier in CLASSIFIERS}
        for edit_type in EDIT_TYPES:
            if not world.survives(photo, EDIT_SURVIVES):
                continue
            removed = photo.values[edit_type]
            added = f"new{edit_type}{world.generator.integers(ADDED)}"
            for classifier in CLASSIFIERS:
                loss = control[classifier] - world.answer(classifier, photo, edit_type)
                for words in ((removed, ""), ("", added), (removed, added)):
                    change = Change(photo.object_class, edit_type, *words)
                    groups.setdefault((classifier, change), []).append((photo.number, loss))
    return list(_candidates(groups))


def _candidates(groups: dict[tuple[str, Change], list[tuple[int, float]]]) -> Iterator[Candidate]:
    for (classifier, change), found in groups.items():
        loss, n = mean_losses([source for source, _ in found], [loss for _, loss in found])
        edits = frozenset(f"{change.edit_type}/{source}" for source, _ in found)
        yield Candidate(classifier, change, loss, n, edits=edits)


def two_stages(world: World, n_sources: int, hypotheses: int, share: float = 0.5) -> Outcome:
    """Spend the images of a one-stage test of ``n_sources`` on a screen and on pairs of fresh photos."""
    screened = round(n_sources * (1 - share))
    images = (n_sources - screened) * IMAGES_PER_SOURCE
    chosen = choose_hypotheses(rank_candidates(screen(world, screened)), hypotheses)
    losses: list[list[float]] = [[] for _ in chosen]
    tried = [0] * len(chosen)

    def pair(number: int) -> None:
        nonlocal images
        images -= 2
        tried[number] += 1
        loss = world.confirm_pair(chosen[number])
        losses[number] += [] if loss is None else [loss]

    for number in range(len(chosen)):
        while len(losses[number]) < LOOK_PAIRS and tried[number] < 3 * LOOK_PAIRS and images >= 2:
            pair(number)
    stopped = [is_futile(PairColumns.fresh(found)) for found in losses]
    living = [number for number, given_up in enumerate(stopped) if not given_up]
    while images >= 2 and (open_ones := [number for number in living if len(losses[number]) < MOST_PAIRS]):
        for number in open_ones[: images // 2]:
            pair(number)
    tests = confirm([PairColumns.fresh(found) for found in losses], stopped, [world.generator] * len(chosen))
    return Outcome(
        [(candidate, test, _true(world, candidate)) for candidate, test in zip(chosen, tests, strict=True)],
        len(world.bugs),
    )


def _true(world: World, candidate: Candidate) -> bool:
    """Whether the change can take away what a planted bug of this classifier leans on."""
    change = candidate.change
    return any(
        (bug.classifier, bug.object_class, bug.edit_type)
        == (candidate.classifier, change.object_class, change.edit_type)
        and change.removed in ("", bug.value)
        for bug in world.bugs
    )
