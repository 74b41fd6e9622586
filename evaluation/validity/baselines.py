"""Simpler ways to estimate a cell's drop, which the tool must beat."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from counterpose_core.contract.runs import Item
from counterpose_core.statistics.bootstrap import mean_by_source

from .changes import Row
from .generation import Drawn, prompt_of
from .measures import Floats
from .report import Absent

Guess = Floats | Absent
"""One drop a cell, or why there is none."""

NO_RANDOM_WORDS = "no LANCE-R edit of some class was kept"
NO_IMAGES = "images of class names were not generated: the validation cannot reach this gateway's services"


def type_means(rows: Sequence[Row]) -> Floats:
    """The baseline that ignores model and class: the edit type's mean estimated drop over all models."""
    by_type: dict[str, list[float]] = {}
    for row in rows:
        by_type.setdefault(row.cell.edit_type, []).append(float(row.estimated.mean()))
    means = {edit_type: float(np.mean(found)) for edit_type, found in by_type.items()}
    return np.array([means[row.cell.edit_type] for row in rows])


def random_word_means(rows: Sequence[Row], items: Iterable[Item]) -> Guess:
    """LANCE-R: the mean drop of the classifier on the class over kept replacements of a random word.

    A random word is not tied to an attribute: all cells of a classifier and class get the same estimate.
    Each source weighs 1 (LANCE, section 4.1).
    """
    drops = _random_word_drops(items)
    wanted = [(row.cell.classifier, row.cell.object_class) for row in rows]
    if not all(drops.get(key) for key in wanted):
        return Absent(absent=NO_RANDOM_WORDS)
    return np.array([np.mean(list(mean_by_source(drops[key]).values())) for key in wanted])


def _random_word_drops(items: Iterable[Item]) -> Mapping[tuple[str, str], list[tuple[str, float]]]:
    found: dict[tuple[str, str], list[tuple[str, float]]] = defaultdict(list)
    for item in items:
        if item.kind == "lance-r" and item.state == "done" and item.result is not None:
            for name, after in item.result.predictions.items():
                drop = item.result.original_predictions[name].score - after.score
                found[name, item.label].append((item.item_group, drop))
    return found


def drawn_means(rows: Sequence[Row], drawn: Drawn | None) -> Guess:
    """Class-name generation: mean p(true) of images of the old value less that of the new value.

    No source is inverted: images of both prompts start from their own noise. Pairs of values weigh
    as they do in the cell.
    """
    if drawn is None:
        return Absent(absent=NO_IMAGES)
    return np.array([_drawn_drop(row, drawn[row.cell.classifier]) for row in rows])


def _drawn_drop(row: Row, p_true: Mapping[str, Floats]) -> float:
    def mean(value: str) -> float:
        return float(p_true[prompt_of(row.cell.object_class, row.cell.attribute, value)].mean())

    return sum(share * (mean(removed) - mean(added)) for (removed, added), share in row.pairs.items())
