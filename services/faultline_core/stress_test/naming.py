"""Which words are behind the harm of a type of edits: “the ball is gone”, not “the object changes”."""

from __future__ import annotations

from collections.abc import Iterable

from faultline_core.statistics.bootstrap import mean_by_source
from faultline_core.stress_test.insights import ANY, LEAST_SOURCES, Effect, Group

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
    inside = {effect.item for effect in group.effects}
    others = [effect for effect in whole.effects if effect.item not in inside]
    if not others or not inside <= {effect.item for effect in whole.effects}:
        return False
    return group.mean < 0.0 and -group.mean >= LEAST_RATIO * _loss(others)


def _loss(effects: Iterable[Effect]) -> float:
    """The mean fall of p(true class), each source weighing 1; a rise counts as none."""
    means = mean_by_source((effect.source, effect.delta_p) for effect in effects).values()
    return max(0.0, -sum(means) / len(means))
