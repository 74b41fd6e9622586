"""Which words are behind the harm of a type of edits: “the ball is gone”, not “the object changes”."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from counterpose_core.statistics.coded import means_by
from counterpose_core.stress_test.effects import Effects
from counterpose_core.stress_test.insights import ANY, LEAST_SOURCES, Group

LEAST_RATIO = 2.0
"""Words are behind a fall if their edits cost at least so many times what the others of the type cost."""


def words_behind(whole: Group, groups: Iterable[Group]) -> Group | None:
    """Return the group within ``whole`` whose words are behind its harm, or None if no words stand out.

    Groups of one class and type are compared: what a group's edits cost, and what the other edits of
    ``whole`` cost, each source weighing 1. A group of fewer than ``LEAST_SOURCES`` sources, of all edits or
    without words explains nothing. Of those left, the most harmful is taken, the loss shrunk by n / (n + 1).

    Args:
        whole: the edits of one classifier, class and type, whatever their words.
        groups: groups of the same classifier's effects, of any class and type.
    """
    standing_out = [group for group in groups if _stands_out(group, whole)]
    return min(standing_out, key=_rank, default=None)


def _rank(group: Group) -> tuple[float, bool, str, str]:
    n, spoken = len(group.means), group.pattern
    # Of equal ones that which names what is gone: classifiers lean on what is there.
    return group.mean * n / (n + 1), spoken.removed == ANY, spoken.removed, spoken.added


def _stands_out(group: Group, whole: Group) -> bool:
    mine, all_of_them = group.pattern, whole.pattern
    same_cell = (mine.object_class, mine.edit_type) == (all_of_them.object_class, all_of_them.edit_type)
    if not same_cell or (mine.removed == ANY and mine.added == ANY) or len(group.means) < LEAST_SOURCES:
        return False
    inside = np.isin(whole.effects.at, group.effects.at)
    others = whole.effects.take(np.flatnonzero(~inside))
    if not others or np.count_nonzero(inside) < len(group.effects):
        return False
    return group.mean < 0.0 and -group.mean >= LEAST_RATIO * _loss(others)


def _loss(effects: Effects) -> float:
    """The mean fall of p(true class), each source weighing 1; a rise counts as none."""
    return max(0.0, -float(means_by(effects.source, effects.delta_p).mean()))
