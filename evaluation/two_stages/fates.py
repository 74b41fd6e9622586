"""What became of each planted bug in a run, and by the oracle where it was lost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterpose_core.contract.runs import Item
from counterpose_core.stress_test.screening import LEVEL
from counterpose_miniature.world.grammar import parse
from counterpose_miniature.world.scene import Scene
from evaluation.validity.changes import Change
from evaluation.validity.detection import Chance
from evaluation.validity.judging import Seen, verdict

from .claims import Claim, shows, stages_of
from .replay import Replayed
from .report import Fate

Look = Callable[[Sequence[str]], Sequence[Seen]]
"""What the oracle sees in images, given by their names in the store."""


@dataclass(frozen=True)
class Story:
    """A run with all that its fates are read from; ``scenes`` by the name of a source's image."""

    replayed: Replayed
    claims: Sequence[Claim]
    changes: Mapping[str, Change]
    scenes: Mapping[str, Scene]
    look: Look

    def fate(self, chance: Chance) -> Fate:
        """What became of a planted bug: found, or the first reason for which it was not."""
        broken = [claim for claim in self.claims if claim.state == "breaks"]
        if any(claim.names(chance) for claim in broken):
            return "found"
        if any(claim.shows(chance) for claim in broken):
            return "other-words"
        return self._lost_in_the_screen(chance) or self._lost_in_the_test(chance)

    def _lost_in_the_screen(self, chance: Chance) -> Fate | None:
        if not any(_says(caption, chance) for caption in self._captions(chance)):
            return "no-caption"
        asking = [item for item in self._screened() if shows(self.changes[item.id], chance)]
        kept = [item for item in asking if item.state == "done"]
        if not asking:
            return "no-edit"
        if not kept:
            return "gate"
        return None if any(self._right(kept)) else "wrong-edit"

    def _captions(self, chance: Chance) -> Collection[str]:
        made = [item for item in self.replayed.items if item.label == chance.bug.object_class]
        return {item.result.caption for item in made if item.result is not None}

    def _screened(self) -> list[Item]:
        screened = [item for item in self.replayed.items if item.stage == 1 and item.kind == "edit"]
        return [item for item in screened if item.id in self.changes]

    def _right(self, items: Sequence[Item]) -> list[bool]:
        made = [(item, item.result) for item in items if item.result is not None]
        seen = self.look([result.image for _, result in made])
        judged = []
        for (item, result), one in zip(made, seen, strict=True):
            truth = self.scenes[item.source_image].attributes()
            found = verdict(result.caption, result.edited_caption or result.caption, truth, one)
            judged.append(found.success and found.label)
        return judged

    def _lost_in_the_test(self, chance: Chance) -> Fate:
        if stages_of(self.replayed) == "one":
            return "not-shown" if self._could_be_shown(chance) else "not-chosen"
        tested = [claim for claim in self.claims if claim.is_tested]
        mine = [claim for claim in tested if claim.names(chance) or claim.shows(chance)]
        if not mine:
            return "not-chosen"
        bar = LEVEL / len(tested)
        return "not-shown" if any(least_p(claim) <= bar for claim in mine) else "too-few-pairs"

    def _could_be_shown(self, chance: Chance) -> bool:
        insights = self.replayed.summary.insights
        said = [each for each in insights if Claim(each, "", each.delta_p, [], 0).names(chance)]
        return any(each.status != "insufficient" for each in said)


def least_p(claim: Claim) -> float:
    """The least p that the pairs of a test can give: one of all exchanges of placebos and edits."""
    pairs = Counter(edit.source for edit in claim.edits)
    return 1.0 / math.prod(math.comb(2 * n, n) for n in pairs.values())


def _says(caption: str, chance: Chance) -> bool:
    # Any caption can be given what a class is mistaken by; what it leans on must be said to be taken away.
    bug = chance.bug
    return bug.mode == "mistaken-for" or parse(caption).get(bug.attribute) == bug.value


def stacked(images: Sequence[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """Images as one array [N, 64, 64, 3]."""
    return np.stack(images) if images else np.empty((0, 64, 64, 3), dtype=np.uint8)
