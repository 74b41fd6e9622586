"""Sources with a caption, and which of them can show a change: once each, or in several draws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from counterpose_core.contract.confirmation import Wording
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.stress_test.confirmation import (
    LEAST_REDRAWN,
    MOST_DRAWS,
    MOST_PAIRS,
    MOST_REDRAWN_PAIRS,
)
from counterpose_core.stress_test.screening import Change, WordingKey, wording_key
from counterpose_core.stress_test.wordings import LEAST_PAIRS
from counterpose_gateway.methods.stress_test.observations.observations import Observation, Place
from counterpose_gateway.methods.stress_test.screen.interventions import reworded
from counterpose_gateway.runs.seeds import derive_seed

BLOCK = 3 * LEAST_PAIRS // 2
"""Images of a wording before the next one's turn: of so many, gates mostly leave pairs enough for a test."""

MOST_REDRAWN = 5
"""Sources of one change that are drawn again: more of them would have fewer draws each."""


@dataclass(frozen=True)
class Showing:
    """A source that can show a change, by the wording that applies to its caption, and in which draw."""

    source: Observation
    wording: Wording
    draw: int | None = None

    @property
    def place(self) -> Place:
        """The source and the draw."""
        return self.source.source, self.draw

    @property
    def unit(self) -> Place:
        """The group of the source, or the source where it stands alone, and the draw."""
        return self.source.unit, self.draw


class CaptionedSources:
    """The sources that have a caption, fresh or screened, in the order that the seed draws."""

    def __init__(self, config: StressTestConfig, seen: Iterable[Observation]) -> None:
        self._seed = config.request.seed
        self._draws = config.redraw is not None
        captioned = {each.source: each for each in seen if each.stage == 1 and each.caption}
        self._of_class: dict[str, list[Observation]] = {}
        for each in sorted(
            captioned.values(), key=lambda each: derive_seed(self._seed, each.source, "fresh")
        ):
            self._of_class.setdefault(each.label, []).append(each)

    def fresh(self, change: Change, wordings: Sequence[Wording]) -> list[Showing]:
        """The fresh sources that a wording applies to, each with one of them.

        The first wording gets images enough for a test of its own before the next one has any; wordings
        beyond the first few stand in where none of these applies. Of a group there is one source: pairs that
        are not independent would count as one.
        """
        return self._showing(change, wordings, fresh=True)

    def redrawn(self, change: Change, wordings: Sequence[Wording]) -> list[Showing]:
        """A few sources in several draws, fresh ones first, one of a group, one draw of all after the other.

        Nothing if the run has no settings that draw, or if there are too few sources to be a finding.
        """
        fresh = self._showing(change, wordings, fresh=True)
        sources = _one_of_a_group([*fresh, *self._showing(change, wordings, fresh=False)])[:MOST_REDRAWN]
        if not self._draws or len(sources) < LEAST_REDRAWN:
            return []
        turns = _Turns(_first(wordings, MOST_REDRAWN_PAIRS // LEAST_PAIRS))
        fitting = [_applicable(each.source, wordings) for each in sources]
        return [
            Showing(each.source, turns.next(fitting[place]), draw)
            for draw in range(1, MOST_DRAWS + 1)
            for place, each in enumerate(sources)
        ]

    def of_class(self, object_class: str) -> list[Observation]:
        """The sources of a class, fresh ones first, one of a group."""
        ordered = sorted(self._of_class.get(object_class, []), key=lambda each: each.kind != "caption")
        return list({each.unit: each for each in reversed(ordered)}.values())[::-1]

    def fresh_of(self, object_class: str) -> list[Observation]:
        """The fresh sources of a class, one of a group."""
        return [each for each in self.of_class(object_class) if each.kind == "caption"]

    def _showing(self, change: Change, wordings: Sequence[Wording], *, fresh: bool) -> list[Showing]:
        turns = _Turns(_first(wordings, MOST_PAIRS // LEAST_PAIRS))
        found: dict[Place, Showing] = {}
        for source in self._of_class.get(change.object_class, []):
            if (source.kind == "caption") != fresh or (source.unit, None) in found:
                continue
            if fitting := _applicable(source, wordings):
                found[source.unit, None] = Showing(source, turns.next(fitting))
        return list(found.values())


class _Turns:
    """Deals out wordings: a block of images to each of the ``first`` ones, in their order."""

    def __init__(self, first: Sequence[Wording]) -> None:
        self._first, self._used = first, Counter[WordingKey]()

    def next(self, fitting: Sequence[Wording]) -> Wording:
        """The wording of the next image, of those that apply to its caption."""
        preferred = [each for each in fitting if each in self._first] or fitting[:1]
        wording = min(preferred, key=lambda each: self._used[_key(each)] // BLOCK)
        self._used[_key(wording)] += 1
        return wording


def _key(wording: Wording) -> WordingKey:
    return wording_key(wording.removed, wording.added)


def _applicable(source: Observation, wordings: Iterable[Wording]) -> list[Wording]:
    return [each for each in wordings if reworded(source.caption or "", each, source.label)]


def _first(wordings: Iterable[Wording], number: int) -> list[Wording]:
    """The first ``number`` wordings, with all that say the same in other articles."""
    by_key: dict[WordingKey, list[Wording]] = {}
    for each in wordings:
        by_key.setdefault(_key(each), []).append(each)
    return [each for alike in list(by_key.values())[:number] for each in alike]


def _one_of_a_group(showings: Iterable[Showing]) -> list[Showing]:
    first: dict[Place, Showing] = {}
    for each in showings:
        first.setdefault(each.unit, each)
    return list(first.values())
