"""The recorded images of a benchmark, arranged by condition, class and position for the core's statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from counterpose_core.contract.shift_benchmarks import BenchmarkShift, ImageSource, ShiftBenchmarkConfig
from counterpose_core.shift_benchmark.answers import ModelAnswers
from counterpose_core.shift_benchmark.generator_gap import RealAnswers
from counterpose_core.shift_benchmark.shift_filter import FilterThresholds, ImageScores, Verdicts, judge
from counterpose_core.statistics.coded import Flags, Floats, Ints
from counterpose_core.statistics.stratified import Units
from counterpose_gateway.methods.shift_benchmark.cells import GENERATED
from counterpose_gateway.methods.shift_benchmark.columns import ImageColumns
from counterpose_gateway.summaries.columns import NONE

Places = tuple[Ints, Ints, Ints]
"""Condition, class and place of some images."""


@dataclass(frozen=True)
class ImageSourceEvidence:
    """Flags, similarities (conditions, classes, places) and answers (..., models) of one image source.

    ``conditions`` are the base and those shifts of the benchmark that the image source has items of;
    ``ends`` says how many items of each ended how. A place of generated images is a seed, so that base and
    shifts are pairs; images that were retrieved or provided are not paired, and the shifted ones have places
    of their own. ``answered`` is None if every model answered every image.
    """

    image_source: ImageSource
    conditions: tuple[BenchmarkShift, ...]
    ends: Mapping[str, Mapping[str, int]]
    classes: tuple[str, ...]
    models: tuple[str, ...]
    made: Flags
    to_object: Floats
    to_shift: Floats
    right: Flags
    units: Units | None = None
    answered: Flags | None = None

    @classmethod
    def of(
        cls, image_source: ImageSource, columns: ImageColumns, config: ShiftBenchmarkConfig
    ) -> ImageSourceEvidence:
        """Lay out the items of one image source."""
        rows = columns.rows(image_source)
        planned = sorted({0, *np.unique(columns.condition[rows]).tolist()})
        conditions = tuple(config.shifts[index] for index in planned)
        models = tuple(config.request.classifiers)
        paired, n = image_source in GENERATED, config.request.n
        shape = (len(conditions), len(config.classes), n if paired else 2 * n)
        seen = rows[columns.made[rows]]
        own = columns.slot[seen] + (0 if paired else n) * (columns.condition[seen] > 0)
        at = np.searchsorted(planned, columns.condition[seen]), columns.class_index[seen], own
        made = np.zeros(shape, dtype=np.bool_)
        to_object, to_shift = np.full(shape, np.nan), np.full(shape, np.nan)
        right, answered = (np.zeros((*shape, len(models)), dtype=np.bool_) for _ in range(2))
        made[at] = True
        to_object[at], to_shift[at] = columns.to_object[seen], columns.to_shift[seen]
        right[at], answered[at] = columns.right(seen), columns.answered(seen)
        known = image_source, conditions, _ends(columns, rows, config), tuple(config.classes), models
        units = _units(shape, at, columns.group[seen])
        return cls(*known, made, to_object, to_shift, right, units, _partly(answered, made))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The conditions by name, the base first."""
        return tuple(shift.name for shift in self.conditions)

    def judged(self, checkpoint: str, objects: Floats, shifts: Mapping[str, float | None]) -> Verdicts:
        """Compare the images with the thresholds ``objects`` (conditions, classes) and ``shifts``."""
        scores = ImageScores(checkpoint, self.names, self.classes, self.made, self.to_object, self.to_shift)
        return judge(scores, FilterThresholds(checkpoint, objects, shifts))

    def answers(self, kept: Flags) -> ModelAnswers:
        """The models' answers; those to the images in ``kept`` count."""
        known = self.models, self.names, self.classes, self.right, self.made, kept
        return ModelAnswers(*known, self.units, self.answered)

    def counted(self, kept: Flags) -> Flags:
        """The images in ``kept`` that count for each model (..., models): those that it answered."""
        counted = np.broadcast_to(kept[..., None], self.right.shape)
        return counted if self.answered is None else np.asarray(counted & self.answered)


def _ends(columns: ImageColumns, rows: Ints, config: ShiftBenchmarkConfig) -> dict[str, dict[str, int]]:
    """Condition → state, or the reason where a filter dropped it → how many of these items."""
    found: dict[str, dict[str, int]] = {}
    for index, shift in enumerate(config.shifts):
        of_shift = rows[columns.condition[rows] == index]
        dropped = columns.of_state(of_shift, "filtered")
        others = np.setdiff1d(of_shift, dropped, assume_unique=True)
        found[shift.name] = columns.counted("state", others) | columns.counted("reason", dropped)
    return found


def _units(shape: tuple[int, int, int], at: Places, groups: Ints) -> Units | None:
    """The place of the first image of each one's group, in the base if that has it; None without groups.

    Base and shifted images of one group are drawn together, so they have one place.
    """
    grouped = groups != NONE
    if not grouped.any():
        return None
    condition, index, place = (each[grouped].astype(np.intp) for each in at)
    # Of a class and its group one number; conditions of it follow each other, the base first.
    _, whose = np.unique(np.stack([index, groups[grouped]]), axis=1, return_inverse=True)
    keys = whose.reshape(-1) * shape[0] + condition
    distinct, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    bases = np.searchsorted(distinct, distinct - distinct % shape[0])
    with_base = distinct[bases] % shape[0] == 0
    firsts = place[np.where(with_base, first[bases], first)]
    units = np.broadcast_to(np.arange(shape[2]), shape).copy()
    units[condition, index, place] = firsts[inverse]
    return units


@dataclass(frozen=True, eq=False)
class RealEvidence:
    """The real images that are done: the places of each class's in the columns."""

    columns: ImageColumns
    images: Mapping[str, Ints]
    models: tuple[str, ...]
    failed: int

    @classmethod
    def of(cls, columns: ImageColumns, config: ShiftBenchmarkConfig) -> RealEvidence:
        """Lay out the real images."""
        rows = columns.rows("real")
        seen = rows[columns.made[rows]]
        by_class = {
            name: seen[columns.class_index[seen] == index] for index, name in enumerate(config.classes)
        }
        failed = columns.counted("state", rows).get("failed", 0)
        return cls(columns, by_class, tuple(config.request.classifiers), failed)

    @property
    def without(self) -> list[str]:
        """The classes without images."""
        return [name for name, rows in self.images.items() if not len(rows)]

    @property
    def rows(self) -> Ints:
        """The places of all real images, class by class."""
        return np.concatenate(list(self.images.values()))

    def similarities(self, *, photo: bool) -> dict[str, Floats]:
        """The similarities of each class with images to its caption, as a photograph or as plain words."""
        plain = self.columns.plain
        values = self.columns.to_object if photo else np.where(np.isnan(plain), self.columns.to_object, plain)
        return {name: values[rows] for name, rows in self.images.items() if len(rows)}

    @property
    def answers(self) -> RealAnswers | None:
        """The models' answers; None if a class has no image to compare its generated ones with."""
        if self.without:
            return None
        most = max(map(len, self.images.values()))
        there = np.zeros((len(self.images), most), dtype=np.bool_)
        values, answered = (np.zeros((*there.shape, len(self.models)), dtype=np.bool_) for _ in range(2))
        rows = self.rows
        index = np.repeat(np.arange(len(there)), [len(listed) for listed in self.images.values()])
        place = np.concatenate([np.arange(len(listed)) for listed in self.images.values()])
        there[index, place] = True
        values[index, place] = self.columns.right(rows)
        answered[index, place] = self.columns.answered(rows)
        units = _units((1, *there.shape), (np.zeros_like(index), index, place), self.columns.group[rows])
        return RealAnswers(values, there, None if units is None else units[0], _partly(answered, there))


def _partly(answered: Flags, there: Flags) -> Flags | None:
    """The answered images (..., models), or None if every model answered every image that is there."""
    return None if answered[there].all() else answered
