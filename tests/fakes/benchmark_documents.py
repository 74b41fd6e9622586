"""Benchmarks laid out from a document of each item, one by one: what columns must arrive at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterpose_core.contract.shift_benchmarks import (
    ImageItem,
    ImageResult,
    ImageSourceOrReal,
    ShiftBenchmarkConfig,
)
from counterpose_gateway.methods.shift_benchmark.cells import GENERATED, Cell

Flags = NDArray[np.bool_]
Place = tuple[int, int, int]


@dataclass(frozen=True)
class LaidOut:
    """Flags and similarities (conditions, classes, places), answers (..., models), and units."""

    made: Flags
    to_object: NDArray[np.float64]
    to_shift: NDArray[np.float64]
    right: Flags
    answered: Flags
    units: NDArray[np.intp]


def lay_out(
    items: Sequence[ImageItem], image_source: ImageSourceOrReal, config: ShiftBenchmarkConfig
) -> LaidOut:
    """Lay out the images of one image source."""
    placed = [(Cell.of(item.item_group), item) for item in items]
    placed = [(cell, item) for cell, item in placed if cell.image_source == image_source]
    planned = sorted({0} | {cell.condition for cell, _ in placed})
    models, n = config.request.classifiers, config.request.n
    paired = image_source in GENERATED
    shape = (len(planned), len(config.classes), n if paired else 2 * n)
    made, scores = np.zeros(shape, dtype=np.bool_), np.full((2, *shape), np.nan)
    right, answered = np.zeros((2, *shape, len(models)), dtype=np.bool_)
    groups = _groups(items, image_source, config.groups)
    grouped: list[tuple[Place, str]] = []
    for cell, item in placed:
        if item.state != "done" or item.result is None:
            continue
        place = item.slot if paired or cell.condition == 0 else n + item.slot
        at = (planned.index(cell.condition), cell.class_index, place)
        made[at], scores[0][at] = True, item.result.object_similarity
        if item.result.shift_similarity is not None:
            scores[1][at] = item.result.shift_similarity
        pairs = [item.result.predictions.get(model) for model in models]
        right[at] = [pair is not None and pair.right for pair in pairs]
        answered[at] = [pair is not None for pair in pairs]
        if item.id in groups:
            grouped.append((at, groups[item.id]))
    return LaidOut(made, scores[0], scores[1], right, answered, _units(shape, grouped))


def _groups(
    items: Sequence[ImageItem], image_source: ImageSourceOrReal, named: Mapping[str, str]
) -> dict[str, str]:
    """Item → the group of its image."""
    done = [item for item in items if item.state == "done" and f".{image_source}." in item.item_group]
    results = [(item, item.result) for item in done if item.result is not None]
    if image_source != "retrieval":
        return {item.id: named[result.image] for item, result in results if result.image in named}
    parents: dict[str, str] = {}

    def root(key: str) -> str:
        parent = parents.setdefault(key, key)
        return key if parent == key else root(parent)

    for item, result in results:
        for key in _keys(result, named):
            parents[root(key)] = root(item.id)
    sizes = Counter((item.label, root(item.id)) for item, _ in results)
    return {item.id: root(item.id) for item, _ in results if sizes[item.label, root(item.id)] > 1}


def _keys(result: ImageResult, named: Mapping[str, str]) -> list[str]:
    keys = [result.image, result.alike or result.image]
    return [*keys, f"named {named[result.image]}"] if result.image in named else keys


def _units(shape: Place, grouped: Sequence[tuple[Place, str]]) -> NDArray[np.intp]:
    units = np.broadcast_to(np.arange(shape[2]), shape).copy()
    for at, group in grouped:
        whose = [other for other, its in grouped if its == group and other[1] == at[1]]
        in_base = [place for condition, _, place in whose if condition == 0]
        own = [place for condition, _, place in whose if condition == at[0]]
        units[at] = (in_base or own)[0]
    return units
