"""What stress tests of two stages confirm in simulated folders: planted bugs, and harmless changes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from numpy.random import Generator

from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.stress_test.confirmation import (
    LEAST_REDRAWN,
    LOOK_PAIRS,
    MOST_DRAWS,
    MOST_PAIRS,
    MOST_REDRAWN_PAIRS,
    ConfirmationTest,
    PairColumns,
    confirm,
    is_futile,
)
from counterpose_core.stress_test.screening import (
    Candidate,
    Change,
    choose_hypotheses,
    has_plenty,
    most_hypotheses,
    rank_candidates,
    with_pairs,
)
from counterpose_core.types import EDIT_TYPES, Estimate
from counterpose_gateway.methods.stress_test.confirm.captioned import MOST_REDRAWN
from evaluation.reference.plain_figures import mean_losses

from .folders import CLASSES, CLASSIFIERS, EDIT_SURVIVES, ODD, PLACEBO_SURVIVES, Bug, Folder, Photo

KEPT, PLENTY_KEPT, PLENTY_CLASS = 0.5, 0.65, 47
"""Shares of a class that are kept, the second one from 47 images on, as the product divides."""

ITEMS_EACH = 8
"""Of an image in one stage: five edits, two controls and one edit of the random baseline."""

_PAIR_KEPT = EDIT_SURVIVES * PLACEBO_SURVIVES

Place = tuple[int, int]
"""The number of a photo and of its draw; 0 where a photo is used once."""


@dataclass
class Tested:
    """A hypothesis with the places that can show it, and the pairs that they gave."""

    candidate: Candidate
    places: Sequence[tuple[Photo, int]]
    tried: int = 0
    pairs: list[tuple[int, float, float]] = field(default_factory=list)

    @property
    def redrawn(self) -> bool:
        """Whether its photos are drawn several times."""
        return any(draw for _, draw in self.places)

    @property
    def columns(self) -> PairColumns:
        """Its pairs so far."""
        photos, placebos, edits = zip(*self.pairs, strict=True) if self.pairs else ((), (), ())
        return PairColumns.of([str(photo) for photo in photos], placebos, edits, redrawn=self.redrawn)


@dataclass
class TwoStages:
    """One stress test of a folder: the screen, the choice, the look and the rest, on one budget of items."""

    folder: Folder
    draws: bool = True

    def __post_init__(self) -> None:
        per_class = self.folder.images // len(CLASSES)
        kept = math.floor(per_class * (PLENTY_KEPT if per_class >= PLENTY_CLASS else KEPT)) * len(CLASSES)
        self.fresh, self.screened = self.folder.photos[:kept], self.folder.photos[kept:]
        self.budget = kept * (ITEMS_EACH - 1)
        self._placebos: dict[Place, dict[str, float] | None] = {}
        self.groups = self._screen()

    def _screen(self) -> dict[tuple[str, Change], list[tuple[Photo, float]]]:
        groups: dict[tuple[str, Change], list[tuple[Photo, float]]] = {}
        for photo in self.screened:
            controls = {name: self.folder.answer(name, photo) for name in CLASSIFIERS}
            for edit_type in EDIT_TYPES:
                if not self.folder.survives(photo, EDIT_SURVIVES):
                    continue
                removed = f"{edit_type}{photo.values[edit_type]}"
                added = f"new{edit_type}{self.folder.generator.integers(4)}"
                for name in CLASSIFIERS:
                    loss = controls[name] - self.folder.answer(name, photo, edit_type)
                    for words in ((removed, ""), ("", added), (removed, added)):
                        change = Change(photo.object_class, edit_type, *words)
                        groups.setdefault((name, change), []).append((photo, loss))
        return groups

    def _candidates(self) -> Iterator[Candidate]:
        for (name, change), found in self.groups.items():
            loss, n = mean_losses([photo.number for photo, _ in found], [loss for _, loss in found])
            edits = frozenset(f"{change.edit_type}/{photo.number}" for photo, _ in found)
            yield Candidate(name, change, loss, n, edits=edits)

    def _showing(self, candidate: Candidate, photos: Sequence[Photo]) -> list[Photo]:
        change = candidate.change
        seen = {photo.values[change.edit_type] for photo, _ in self.groups[candidate.classifier, change]}
        return [
            photo
            for photo in photos
            if photo.object_class == change.object_class and photo.values[change.edit_type] in seen
        ]

    def _redrawn(self, candidate: Candidate) -> list[tuple[Photo, int]]:
        found = [*self._showing(candidate, self.fresh), *self._showing(candidate, self.screened)]
        if not self.draws or len(found) < LEAST_REDRAWN:
            return []
        return [(photo, draw) for draw in range(1, MOST_DRAWS + 1) for photo in found[:MOST_REDRAWN]]

    def choose(self) -> list[Tested]:
        """The hypotheses, each on fresh photos if these are plenty, and else on draws."""
        expected = []
        for candidate in rank_candidates(self._candidates()):
            places = max(len(self._showing(candidate, self.fresh)), len(self._redrawn(candidate)))
            expected.append(with_pairs(candidate, places, _PAIR_KEPT))
        chosen = choose_hypotheses(expected, most_hypotheses(self.budget, redraws=self.draws))
        return [Tested(each, self._places(each, len(chosen))) for each in chosen]

    def _places(self, candidate: Candidate, hypotheses: int) -> list[tuple[Photo, int]]:
        fresh, redrawn = self._showing(candidate, self.fresh), self._redrawn(candidate)
        plenty = has_plenty(len(fresh) * _PAIR_KEPT, hypotheses)
        return [(photo, 0) for photo in fresh] if plenty or not redrawn else redrawn

    def run(self) -> list[tuple[Candidate, ConfirmationTest]]:
        """Test every hypothesis."""
        tested = self.choose()
        self._in_turns(tested, math.ceil(LOOK_PAIRS / _PAIR_KEPT), look=True)
        stopped = [is_futile(each.columns) for each in tested]
        living = [each for each, given_up in zip(tested, stopped, strict=True) if not given_up]
        self._in_turns(living, math.ceil(MOST_PAIRS / _PAIR_KEPT), look=False)
        columns = [each.columns for each in tested]
        tests = confirm(columns, stopped, [self.folder.generator] * len(tested))
        return [(each.candidate, test) for each, test in zip(tested, tests, strict=True)]

    def _in_turns(self, tested: Sequence[Tested], most: int, *, look: bool) -> None:
        wanting = list(tested)
        while wanting:
            wanting = [each for each in wanting if self._one_more(each, most, look=look)]

    def _one_more(self, each: Tested, most: int, *, look: bool) -> bool:
        number = most if look or not each.redrawn else math.ceil(MOST_REDRAWN_PAIRS / _PAIR_KEPT)
        if each.tried >= min(number, len(each.places)):
            return False
        photo, draw = each.places[each.tried]
        place = photo.number, draw
        cost = 1 if place in self._placebos else 2
        if cost > self.budget:
            return False
        self.budget, each.tried = self.budget - cost, each.tried + 1
        if place not in self._placebos:
            kept = self.folder.survives(photo, PLACEBO_SURVIVES)
            answers = {name: self.folder.answer(name, photo) for name in CLASSIFIERS}
            self._placebos[place] = answers if kept else None
        placebo, name = self._placebos[place], each.candidate.classifier
        if self.folder.survives(photo, EDIT_SURVIVES) and placebo is not None:
            edit = self.folder.answer(name, photo, each.candidate.change.edit_type)
            each.pairs.append((photo.number, placebo[name], edit))
        return True


def _bugs_of(candidate: Candidate, folder: Folder) -> set[Bug]:
    """The planted bugs that a change can show."""
    change = candidate.change
    return {
        bug
        for bug in folder.bugs
        if (bug.classifier, bug.object_class, bug.edit_type)
        == (candidate.classifier, change.object_class, change.edit_type)
        and change.removed in ("", f"{bug.edit_type}{bug.value}")
    }


@dataclass(frozen=True)
class Confirmations:
    """Rates over simulated folders: bugs found by their words, right findings, and runs with a wrong one."""

    recall: Estimate
    precision: Estimate
    any_false: Estimate


def confirmations(
    images: int,
    replicates: int,
    generator: Generator,
    *,
    n_bugs: int = 9,
    odd: float = ODD,
    draws: bool = True,
) -> Confirmations:
    """Run stress tests of fresh folders, each with bugs of its own.

    A finding is wrong if no bug of its class makes it so, although its own images may lose: what is odd
    about a few images is no fault of the classifier.
    """
    found = right = wrong = runs_with_wrong = 0
    for _ in range(replicates):
        folder = Folder(generator, images, n_bugs, odd)
        confirmed = [each for each, test in TwoStages(folder, draws).run() if test.confirmed]
        shown = [_bugs_of(each, folder) for each in confirmed]
        named = [bugs for each, bugs in zip(confirmed, shown, strict=True) if each.change.removed]
        found += len(set().union(*named))
        right, wrong = right + sum(map(bool, shown)), wrong + sum(not bugs for bugs in shown)
        runs_with_wrong += any(not bugs for bugs in shown)
    return Confirmations(
        proportion(found, n_bugs * replicates),
        proportion(right, right + wrong),
        proportion(runs_with_wrong, replicates),
    )


def bugs_found(images: int, replicates: int, generator: Generator) -> Estimate:
    """The share of nine planted bugs that are confirmed by their own words."""
    return confirmations(images, replicates, generator).recall


def any_without_bugs(images: int, replicates: int, generator: Generator) -> Estimate:
    """The share of runs that confirm anything where no classifier has a bug."""
    return confirmations(images, replicates, generator, n_bugs=0, odd=0.0).any_false
