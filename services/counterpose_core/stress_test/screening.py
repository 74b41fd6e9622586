"""The screen of a stress test: which of the changes that seemed to hurt are worth a test on other images.

The screen ranks and promises nothing: its figures are those of the groups that came out worst, so they
overstate the true losses and no p-value is made of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from counterpose_core.text.caption_diff import words
from counterpose_core.text.stop_words import STOP_WORDS
from counterpose_core.types import EditType

LEVEL = 0.05
"""Family-wise, over all changes that are tested."""

LEAST_LOSS = 0.05
"""A smaller mean loss of p(true class) is not worth a finding, however sure it is."""

FEWEST, MOST, MOST_REDRAWN = 4, 12, 24
"""Bounds of the number of hypotheses. By simulation 8 find most at 48 source images, 12 from 96 on, and twice
as many if images can be drawn again: then a change needs few images, and pairs are not what is short."""

_COVERED = 0.5
_LEAST_SERVED = 0.7
"""The share of the pairs it needs that a change must be expected to get. By simulation 1.0 finds fewer bugs:
changes that bring words in apply to every image and take the places of stronger ones."""

_PLENTY = 2.0
"""Times the least pairs. In simulated folders of 8 classes of 50 images, of which half have a given word,
runs that drew images again below 1.0, 1.5 and 2.0 times the least found 0.64, 0.76 and 0.82 of the bugs."""

_ITEMS_EACH = 18
"""Items a hypothesis should be able to spend: nine pairs of an edit and a placebo."""


WordingKey = tuple[frozenset[str], frozenset[str]]
"""The words that carry the sense of what a wording removes and adds, without articles and endings."""


@dataclass(frozen=True)
class Change:
    """A change of words on one class, whatever classifier it hurts; an empty side is left open."""

    object_class: str
    edit_type: EditType
    removed: str
    added: str

    @cached_property
    def _keys(self) -> WordingKey:
        return wording_key(self.removed, self.added)

    def overlaps(self, other: Change) -> bool:
        """Whether both take away, or both bring in, one and the same word on one class."""
        same_cell = (self.object_class, self.edit_type) == (other.object_class, other.edit_type)
        return same_cell and any(mine & theirs for mine, theirs in zip(self._keys, other._keys, strict=True))


def wording_key(removed: str, added: str) -> WordingKey:
    """Return the contents of a wording: those of “a ball → a person” and “the ball → person” are equal."""
    return _contents(removed), _contents(added)


def _contents(phrase: str) -> frozenset[str]:
    keys = frozenset(word.key for word in words(phrase))
    return keys - STOP_WORDS or keys


@dataclass(frozen=True)
class Candidate:
    """A change that costs one classifier p(true class) in the screen.

    ``loss`` is the mean over ``n`` source images of the fall beyond each one's own control. ``pairs`` is the
    number of pairs of an edit and a placebo that fresh images can be expected to give; ``edits`` are the ids
    of the screen's edits that show the change.
    """

    classifier: str
    change: Change
    loss: float
    n: int
    pairs: float = math.inf
    edits: frozenset[str] = frozenset()

    @property
    def score(self) -> float:
        """The loss, shrunk towards 0 by one imagined source image without any."""
        return self.loss * self.n / (self.n + 1)


def rank_candidates(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates that are worth a test, best score first.

    A candidate with a loss below ``LEAST_LOSS`` is left out, and so is one that overlaps with a better one of
    the same classifier: “food is gone” and “food becomes fruit” are one suspicion. So are “the dog is gone”
    and “a person is there” if half of the persons took a dog's place. If another classifier has
    a better candidate with an overlapping change, and this classifier loses as well under that very change,
    the better one's change is taken, so that both are tested on the same images.
    """
    worth = [candidate for candidate in candidates if candidate.score > 0 and candidate.loss >= LEAST_LOSS]
    by_key = {(candidate.classifier, candidate.change): candidate for candidate in worth}
    # Only changes of one class and edit type can be alike; a large run has tens of thousands of candidates.
    cells: dict[tuple[str, EditType], list[Candidate]] = {}
    for candidate in sorted(worth, key=_best_first):
        ranked = cells.setdefault((candidate.change.object_class, candidate.change.edit_type), [])
        if _told(candidate, ranked):
            continue
        overlapping = (better.change for better in ranked if better.change.overlaps(candidate.change))
        shared = (by_key.get((candidate.classifier, change)) for change in overlapping)
        fitting = (found for found in shared if found is not None and not _told(found, ranked))
        ranked.append(next(fitting, candidate))
    return sorted((candidate for ranked in cells.values() for candidate in ranked), key=_best_first)


def _best_first(candidate: Candidate) -> tuple[float, bool, str, str, str, str, str]:
    change = candidate.change
    # Of equal ones that which names what is gone: classifiers lean on what is there. Names last: equal scores
    # then give the same order in every process.
    names = (change.object_class, change.edit_type, change.removed, change.added)
    return -candidate.score, not change.removed, candidate.classifier, *names


def _told(candidate: Candidate, ranked: Sequence[Candidate]) -> bool:
    own = [better for better in ranked if better.classifier == candidate.classifier]
    covered = candidate.edits & frozenset().union(*(better.edits for better in own))
    if covered and len(covered) >= _COVERED * len(candidate.edits):
        return True
    return any(candidate.change.overlaps(better.change) for better in own)


def most_hypotheses(items: int, *, redraws: bool = False) -> int:
    """Return how many hypotheses ``items`` allow: one for every nine pairs, at least 4 and at most 12.

    At most 24 if the run ``redraws``.
    """
    return min(max(items // _ITEMS_EACH, FEWEST), MOST_REDRAWN if redraws else MOST)


def least_pairs(hypotheses: int, level: float = LEVEL) -> int:
    """Return the number of pairs without which no sign flip test can reach ``level / hypotheses``.

    The least p of n sign flips is 2**-n, and Holm's first step asks for level / hypotheses.
    """
    return math.ceil(math.log2(hypotheses / level))


def choose_hypotheses(ranked: Sequence[Candidate], most: int) -> list[Candidate]:
    """Return the candidates to test, best first: as many as fresh images can serve, at most ``most``.

    A candidate that gets far fewer pairs than `least_pairs` could never be confirmed and would only raise
    the bar for the others (Tarone 1990). The fewer hypotheses, the fewer pairs each needs.
    """
    for number in range(min(most, len(ranked)), 0, -1):
        served = [candidate for candidate in ranked if is_served(candidate, number)]
        if len(served) >= number:
            return served[:number]
    return []


def is_served(candidate: Candidate, hypotheses: int) -> bool:
    """Return whether a candidate can expect most of the pairs that it needs among ``hypotheses``."""
    return candidate.pairs >= _LEAST_SERVED * least_pairs(hypotheses)


def has_plenty(pairs: float, hypotheses: int) -> bool:
    """Return whether so many ``pairs`` can be expected that drawing images again would prove no more."""
    return pairs >= _PLENTY * least_pairs(hypotheses)


def with_pairs(candidate: Candidate, applicable: int, share_kept: float) -> Candidate:
    """Return the candidate with the pairs to expect of ``applicable`` fresh images, or draws of images.

    ``share_kept`` is the share of them whose edit and placebo both pass the gate, in [0, 1].
    """
    return replace(candidate, pairs=applicable * share_kept)
