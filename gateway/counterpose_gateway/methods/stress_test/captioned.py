"""Sources with a caption, and which of them can show a change: once each, or in several draws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from counterpose_core.contract.confirmation import Wording
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.stress_test.confirmation import LEAST_REDRAWN, MOST_DRAWS
from counterpose_core.stress_test.screening import Change
from counterpose_gateway.methods.stress_test.interventions import reworded
from counterpose_gateway.methods.stress_test.observations import Observation, Place
from counterpose_gateway.runs.seeds import derive_seed

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
        """The fresh sources that a wording applies to, each with one that the seed draws.

        Of a group there is one source: pairs that are not independent would count as one.
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
        draws = range(1, MOST_DRAWS + 1)
        return [Showing(each.source, each.wording, draw) for draw in draws for each in sources]

    def _showing(self, change: Change, wordings: Sequence[Wording], *, fresh: bool) -> list[Showing]:
        found: list[Showing] = []
        for source in self._of_class.get(change.object_class, []):
            if (source.kind == "caption") != fresh:
                continue
            fitting = [each for each in wordings if reworded(source.caption or "", each, source.label)]
            if fitting:
                draw = derive_seed(self._seed, source.source, "wording", change.removed, change.added)
                found.append(Showing(source, fitting[draw % len(fitting)]))
        return _one_of_a_group(found)


def _one_of_a_group(showings: Iterable[Showing]) -> list[Showing]:
    first: dict[Place, Showing] = {}
    for each in showings:
        first.setdefault(each.unit, each)
    return list(first.values())
