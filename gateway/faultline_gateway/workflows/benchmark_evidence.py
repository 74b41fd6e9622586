"""The recorded pictures of a benchmark, laid out by condition, class and place for the core's statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

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
from faultline_core.types import BlobRef, Cost, ItemState
from faultline_gateway.workflows.benchmark_cells import GENERATED, Cell

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Picture:
    """What the figures need of a picture: its similarities, and which models were right (a byte each)."""

    to_object: float
    plain: float | None
    to_shift: float | None
    right: bytes


@dataclass(frozen=True, slots=True)
class Placed:
    """An item of a benchmark in its cell; ``picture`` is there where it is done."""

    cell: Cell
    slot: int
    label: str
    state: ItemState
    reason: str | None
    picture: Picture | None


class Spent:
    """What the items of one source took, which weights answered under which name, what was not searched."""

    def __init__(self) -> None:
        self.cost = Cost()
        self.seconds: Counter[str] = Counter()
        self.weights: dict[str, set[str]] = {}
        self.unsearched: set[BlobRef] = set()

    def add(self, result: PictureResult) -> None:
        """Add what one item took."""
        self.cost += result.cost
        self.seconds.update(result.service_seconds)
        for name, model in result.models.items():
            self.weights.setdefault(name, set()).add(model)
        if result.unsearched is not None:
            self.unsearched.add(result.unsearched)


class Recorded:
    """The items of a run by source, in planned order, reduced to what the figures need.

    A benchmark may have a million items, each with a page of answers: they are read one by one.
    """

    def __init__(self, items: Iterable[PictureItem], models: Sequence[str]) -> None:
        self.placed: dict[PictureSource, list[Placed]] = {}
        self.spent: dict[PictureSource, Spent] = {}
        self.codes: Counter[str] = Counter()
        for item in items:
            cell = Cell.of(item.source_id)
            done = item.result if item.state == "done" else None
            picture = None if done is None else _picture(done, models)
            row = Placed(cell, item.slot, item.label, item.state, item.reason, picture)
            self.placed.setdefault(cell.source, []).append(row)
            spent = self.spent.setdefault(cell.source, Spent())
            if item.result is not None:
                spent.add(item.result)
            if item.state == "failed":
                self.codes[item.code or "unknown"] += 1

    @property
    def everything(self) -> Iterator[Placed]:
        """The items of all sources."""
        return chain.from_iterable(self.placed.values())


def _picture(result: PictureResult, models: Sequence[str]) -> Picture:
    right = bytes(result.predictions[model].rank_true == 1 for model in models)
    return Picture(result.object_similarity, result.plain_similarity, result.shift_similarity, right)


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
            if (picture := each.picture) is not None:
                place = each.slot if paired or each.cell.condition == 0 else n + each.slot
                at = (where[name], each.cell.class_index, place)
                made[at], to_object[at] = True, picture.to_object
                if picture.to_shift is not None:
                    to_shift[at] = picture.to_shift
                right[at] = right_answers(picture)
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

    pictures: Mapping[str, Sequence[Picture]]
    models: tuple[str, ...]
    failed: int

    @classmethod
    def of(cls, placed: Sequence[Placed], config: ShiftBenchmarkConfig) -> RealEvidence:
        """Lay out the real pictures."""
        found: dict[str, list[Picture]] = {name: [] for name in config.classes}
        for each in placed:
            if each.picture is not None:
                found[each.label].append(each.picture)
        failed = sum(each.state == "failed" for each in placed)
        return cls(found, tuple(config.request.classifiers), failed)

    @property
    def without(self) -> list[str]:
        """The classes that have none."""
        return [name for name, found in self.pictures.items() if not found]

    def similarities(self, *, photo: bool) -> dict[str, list[float]]:
        """Those of each class that has pictures, to its caption as a photograph or as plain words."""
        return {name: [_similarity(each, photo) for each in found] for name, found in self.there.items()}

    @cached_property
    def there(self) -> dict[str, Sequence[Picture]]:
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
            values[index, : len(found)] = [right_answers(each) for each in found]
        return RealAnswers(values, there)


def right_answers(picture: Picture) -> Flags:
    """Whether each model's best class is the picture's own (models,)."""
    return np.frombuffer(picture.right, dtype=np.bool_)


def _similarity(picture: Picture, photo: bool) -> float:
    return picture.to_object if photo or picture.plain is None else picture.plain
