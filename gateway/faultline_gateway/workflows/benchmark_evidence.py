"""The recorded pictures of a benchmark, laid out by condition, class and place for the core's statistics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from faultline_core.confounder_gap import RealAnswers
from faultline_core.contract.shift_benchmarks import (
    BenchmarkShift,
    BenchmarkSource,
    PictureItem,
    PictureResult,
    PictureSource,
    ShiftBenchmarkConfig,
)
from faultline_core.model_answers import ModelAnswers
from faultline_core.shift_filter import FilterThresholds, Flags, PictureScores, Verdicts, judge
from faultline_gateway.workflows.benchmark_cells import GENERATED, Cell

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Placed:
    """An item of a benchmark and the cell that it belongs to."""

    item: PictureItem
    cell: Cell

    @property
    def made(self) -> PictureResult | None:
        """What it made, None unless it is done."""
        return self.item.result if self.item.state == "done" else None


def by_source(items: Iterable[PictureItem]) -> dict[PictureSource, list[Placed]]:
    """The items of each source, in planned order."""
    found: dict[PictureSource, list[Placed]] = {}
    for item in items:
        cell = Cell.of(item.source_id)
        found.setdefault(cell.source, []).append(Placed(item, cell))
    return found


@dataclass(frozen=True)
class SourceEvidence:
    """One source's pictures: flags and similarities (conditions, classes, places), answers (..., models).

    ``conditions`` are the base and those shifts of the benchmark that the source has items of. A place of
    a generated source is a seed, so that base and shifts are pairs; pictures that were found or brought
    are paired with nothing, and the shifted ones have places of their own.
    """

    source: BenchmarkSource
    conditions: tuple[BenchmarkShift, ...]
    items: Mapping[str, Sequence[Placed]]
    classes: tuple[str, ...]
    models: tuple[str, ...]
    made: Flags
    to_object: Floats
    to_shift: Floats
    right: Flags

    @classmethod
    def of(
        cls, source: BenchmarkSource, placed: Sequence[Placed], config: ShiftBenchmarkConfig
    ) -> SourceEvidence:
        """Lay out the items of one source."""
        planned = {each.cell.condition for each in placed} | {0}
        conditions = tuple(shift for index, shift in enumerate(config.shifts) if index in planned)
        where = {shift.name: index for index, shift in enumerate(conditions)}
        models = tuple(config.request.classifiers)
        paired, n = source in GENERATED, config.request.n
        shape = (len(conditions), len(config.classes), n if paired else 2 * n)
        made = np.zeros(shape, dtype=np.bool_)
        to_object, to_shift = np.full(shape, np.nan), np.full(shape, np.nan)
        right = np.zeros((*shape, len(models)), dtype=np.bool_)
        items: dict[str, list[Placed]] = {shift.name: [] for shift in conditions}
        for each in placed:
            name = each.cell.condition_name(config)
            items[name].append(each)
            if (result := each.made) is not None:
                place = each.item.slot if paired or each.cell.condition == 0 else n + each.item.slot
                at = (where[name], each.cell.class_index, place)
                made[at], to_object[at] = True, result.object_similarity
                if result.shift_similarity is not None:
                    to_shift[at] = result.shift_similarity
                right[at] = right_answers(result, models)
        classes = tuple(config.classes)
        return cls(source, conditions, items, classes, models, made, to_object, to_shift, right)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The conditions by name, the base first."""
        return tuple(shift.name for shift in self.conditions)

    def judged(self, checkpoint: str, objects: Floats, shifts: Mapping[str, float | None]) -> Verdicts:
        """Hold the pictures against ``objects`` (conditions, classes) and ``shifts``."""
        scores = PictureScores(checkpoint, self.names, self.classes, self.made, self.to_object, self.to_shift)
        return judge(scores, FilterThresholds(checkpoint, objects, shifts))

    def answers(self, kept: Flags) -> ModelAnswers:
        """The models' answers to the pictures of which ``kept`` count."""
        return ModelAnswers(self.models, self.names, self.classes, self.right, self.made, kept)


@dataclass(frozen=True)
class RealEvidence:
    """The real pictures that are done, by class: similarities in both forms of caption, and answers."""

    pictures: Mapping[str, Sequence[PictureResult]]
    models: tuple[str, ...]
    failed: int

    @classmethod
    def of(cls, placed: Sequence[Placed], config: ShiftBenchmarkConfig) -> RealEvidence:
        """Lay out the real pictures."""
        found: dict[str, list[PictureResult]] = {name: [] for name in config.classes}
        for each in placed:
            if (result := each.made) is not None:
                found[each.item.label].append(result)
        failed = sum(each.item.state == "failed" for each in placed)
        return cls(found, tuple(config.request.classifiers), failed)

    @property
    def without(self) -> list[str]:
        """The classes that have none."""
        return [name for name, found in self.pictures.items() if not found]

    def similarities(self, *, photo: bool) -> dict[str, list[float]]:
        """Those of each class that has pictures, to its caption as a photograph or as plain words."""
        return {name: [_similarity(each, photo) for each in found] for name, found in self.there.items()}

    @cached_property
    def there(self) -> dict[str, Sequence[PictureResult]]:
        """The classes that have pictures."""
        return {name: found for name, found in self.pictures.items() if found}

    @property
    def answers(self) -> RealAnswers | None:
        """The models' answers, None where a class has no picture to hold its generated ones against."""
        if self.without:
            return None
        most = max(map(len, self.pictures.values()))
        there = np.zeros((len(self.pictures), most), dtype=np.bool_)
        values = np.zeros((*there.shape, len(self.models)), dtype=np.bool_)
        for index, found in enumerate(self.pictures.values()):
            there[index, : len(found)] = True
            values[index, : len(found)] = [right_answers(each, self.models) for each in found]
        return RealAnswers(values, there)


def right_answers(result: PictureResult, models: Sequence[str]) -> list[bool]:
    """Whether each model's best class is the picture's own."""
    return [result.predictions[model].rank_true == 1 for model in models]


def _similarity(result: PictureResult, photo: bool) -> float:
    plain = result.plain_similarity
    return result.object_similarity if photo or plain is None else plain
