"""Changes of words that contain each other: is what stays, once covered ones are left out, still true?"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.random import Generator

from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.statistics.contrast import Contrast
from counterpose_core.stress_test.effects import Effect
from counterpose_core.stress_test.insights import Group, group_by_words, rank_insights
from counterpose_core.types import Estimate

from .placebo_tests import shown
from .world import draw_sources

_CLASSES, _REMOVED, _ADDED = 6, 2, 2
_SOURCES, _HARM, _HIT = 8, 4.0, 0.9

Placebos = dict[str, float]
"""Source → the loss of its placebo, of the sources that have one."""


def false_among_shown(replicates: int, generator: Generator) -> Estimate:
    """The false discovery rate over runs, once findings that others cover are left out (D14).

    In every class two words are replaced by two others on eight sources each. Whatever replaces the
    first word of the first class hurts; a group is false if none of its edits do.
    """
    false = 0.0
    for _ in range(replicates):
        groups, contrasts = draw_family(generator)
        found = {
            group.pattern
            for group, is_shown in zip(groups, shown(contrasts, generator, discovery=True), strict=True)
            if is_shown
        }
        listed = [group for group in rank_insights(groups, found) if group.pattern in found]
        false += share_of_false(listed)
    return proportion(round(false), replicates)


def share_of_false(listed: Collection[Group]) -> float:
    """The share of groups without any harmful edit; 0 of none."""
    return sum(not any(map(_hurts, group.effects)) for group in listed) / max(1, len(listed))


def _hurts(effect: Effect) -> bool:
    return (effect.object_class, effect.removed) == ("class0", "old0")


def draw_family(generator: Generator) -> tuple[list[Group], list[Contrast]]:
    """Draw the effects of one classifier; return their groups by words with the contrast of each."""
    effects: list[Effect] = []
    losses: dict[str, float] = {}
    placebos: Placebos = {}
    for place in np.ndindex(_CLASSES, _REMOVED, _ADDED):
        harm = _HARM if place[:2] == (0, 0) else 0.0
        drawn = draw_sources(_SOURCES, 2, generator, harm=harm, hit=_HIT)
        for at in range(_SOURCES):
            source = f"{place}/{at}"
            if np.isfinite(drawn.placebo[at]):
                placebos[source] = 1.0 - float(drawn.placebo[at])
            for slot in np.flatnonzero(np.isfinite(drawn.edits[at])).tolist():
                effect = _effect(place, source, slot, float(drawn.edits[at, slot] - drawn.original[at]))
                effects.append(effect)
                losses[effect.item] = 1.0 - float(drawn.edits[at, slot])
    compared = [(group, _contrast(group, losses, placebos)) for group in group_by_words(effects)]
    known = [(group, contrast) for group, contrast in compared if contrast is not None]
    return [group for group, _ in known], [contrast for _, contrast in known]


def _effect(place: tuple[int, ...], source: str, slot: int, change: float) -> Effect:
    of_class, old, new = place
    words = f"old{old}", f"new{new}"
    return Effect(f"{source}.{slot}", source, f"class{of_class}", "object", *words, delta_p=change)


def _contrast(group: Group, losses: dict[str, float], placebos: Placebos) -> Contrast | None:
    sources = list(dict.fromkeys(effect.source for effect in group.effects))
    index = {source: number for number, source in enumerate(sources)}
    return Contrast.between(
        [losses[effect.item] for effect in group.effects],
        [index[effect.source] for effect in group.effects],
        [placebos.get(source, np.nan) for source in sources],
    )
