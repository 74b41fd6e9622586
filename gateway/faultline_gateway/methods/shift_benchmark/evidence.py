"""The recorded images of a benchmark, arranged by condition, class and position for the core's statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from faultline_core.contract.shift_benchmarks import (
    BenchmarkShift,
    ImageItem,
    ImageResult,
    ImageSource,
    ImageSourceOrReal,
    ShiftBenchmarkConfig,
)
from faultline_core.shift_benchmark.answers import ModelAnswers
from faultline_core.shift_benchmark.generator_gap import RealAnswers
from faultline_core.shift_benchmark.shift_filter import FilterThresholds, ImageScores, Verdicts, judge
from faultline_core.statistics.bootstrap import Flags
from faultline_core.statistics.stratified import Units
from faultline_core.types import BlobRef, Cost, ItemState
from faultline_gateway.methods.shift_benchmark.cells import GENERATED, Cell
from faultline_gateway.methods.shift_benchmark.retrieved_groups import Retrieved, retrieved_groups
from faultline_gateway.methods.shift_benchmark.unanswered import Failures

Floats = NDArray[np.float64]
Place = tuple[int, int, int]
"""Condition, class and place of an image."""

_UNANSWERED = 2


@dataclass(frozen=True, slots=True)
class Image:
    """The data that figures need of an image: similarities, and each model's answer (a byte each).

    An answer is 1 if it is right, 0 if it is wrong and `_UNANSWERED` if the model failed on the image.
    ``group`` is that of images which are not independent, such as frames of one video.
    """

    to_object: float
    plain: float | None
    to_shift: float | None
    told: bytes
    group: str | None = None


@dataclass(frozen=True, slots=True)
class PlacedItem:
    """An item of a benchmark in its cell; ``image`` is set once the item is done."""

    cell: Cell
    slot: int
    label: str
    state: ItemState
    reason: str | None
    image: Image | None


class Usage:
    """What one image source used: its cost, the weights behind each name, its lists of unsearched images."""

    def __init__(self) -> None:
        self.cost = Cost()
        self.seconds: Counter[str] = Counter()
        self.weights: dict[str, set[str]] = {}
        self.unsearched: set[BlobRef] = set()

    def add(self, result: ImageResult) -> None:
        """Add the usage of one item."""
        self.cost += result.cost
        self.seconds.update(result.service_seconds)
        for name, model in result.models.items():
            self.weights.setdefault(name, set()).add(model)
        if result.unsearched is not None:
            self.unsearched.add(result.unsearched)


class RecordedItems:
    """The items of a run by image source, in planned order, reduced to what the figures need.

    A benchmark may have a million items, each with a page of answers: they are read one by one.
    """

    def __init__(
        self, items: Iterable[ImageItem], models: Sequence[str], groups: Mapping[BlobRef, str] | None = None
    ) -> None:
        self.placed: dict[ImageSourceOrReal, list[PlacedItem]] = {}
        self.usage: dict[ImageSourceOrReal, Usage] = {}
        self.codes: Counter[str] = Counter()
        self.failures = Failures()
        retrieved: list[tuple[int, Retrieved]] = []
        for item in items:
            cell = Cell.of(item.item_group)
            done = item.result if item.state == "done" else None
            image = None if done is None else _image(done, models, groups or {})
            if done is not None:
                self.failures.add(done, models)
            row = PlacedItem(cell, item.slot, item.label, item.state, item.reason, image)
            rows = self.placed.setdefault(cell.image_source, [])
            if done is not None and cell.image_source == "retrieval":
                retrieved.append((len(rows), Retrieved(item.label, done.image, done.alike)))
            rows.append(row)
            usage = self.usage.setdefault(cell.image_source, Usage())
            if item.result is not None:
                usage.add(item.result)
            if item.state == "failed":
                self.codes[item.code or "unknown"] += 1
        self.retrieved = len(retrieved)
        self.repeated = self._group(retrieved, groups or {})

    def _group(self, retrieved: Sequence[tuple[int, Retrieved]], named: Mapping[BlobRef, str]) -> int:
        """Give retrieved images their groups; return how many count once with another one."""
        rows = self.placed.get("retrieval", [])
        groups = retrieved_groups([found for _, found in retrieved], named)
        for (place, _), group in zip(retrieved, groups, strict=True):
            image = rows[place].image
            assert image is not None  # only done items were collected
            rows[place] = replace(rows[place], image=replace(image, group=group))
        known = [(found.label, group) for (_, found), group in zip(retrieved, groups, strict=True) if group]
        return len(known) - len(set(known))

    @property
    def everything(self) -> Iterator[PlacedItem]:
        """The items of all image sources."""
        return chain.from_iterable(self.placed.values())


def _image(result: ImageResult, models: Sequence[str], groups: Mapping[BlobRef, str]) -> Image:
    pairs = [result.predictions.get(model) for model in models]
    told = bytes(_UNANSWERED if pair is None else pair.rank_true == 1 for pair in pairs)
    scores = result.object_similarity, result.plain_similarity, result.shift_similarity
    return Image(*scores, told, groups.get(result.image))


@dataclass(frozen=True)
class ImageSourceEvidence:
    """Flags, similarities (conditions, classes, places) and answers (..., models) of one image source.

    ``conditions`` are the base and those shifts of the benchmark that the image source has items of. A
    place of generated images is a seed, so that base and shifts are pairs; images that were retrieved or
    provided are not paired, and the shifted ones have places of their own. ``answered`` is None if every
    model answered every image.
    """

    image_source: ImageSource
    conditions: tuple[BenchmarkShift, ...]
    items: Mapping[str, Sequence[PlacedItem]]
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
        cls, image_source: ImageSource, placed: Sequence[PlacedItem], config: ShiftBenchmarkConfig
    ) -> ImageSourceEvidence:
        """Lay out the items of one image source."""
        planned = {item.cell.condition for item in placed} | {0}
        conditions = tuple(shift for index, shift in enumerate(config.shifts) if index in planned)
        where = {shift.name: index for index, shift in enumerate(conditions)}
        models = tuple(config.request.classifiers)
        paired, n = image_source in GENERATED, config.request.n
        shape = (len(conditions), len(config.classes), n if paired else 2 * n)
        made = np.zeros(shape, dtype=np.bool_)
        to_object, to_shift = np.full(shape, np.nan), np.full(shape, np.nan)
        right, answered = (np.zeros((*shape, len(models)), dtype=np.bool_) for _ in range(2))
        items: dict[str, list[PlacedItem]] = {shift.name: [] for shift in conditions}
        grouped: list[tuple[Place, str]] = []
        for item in placed:
            name = item.cell.condition_name(config)
            items[name].append(item)
            if (image := item.image) is not None:
                place = item.slot if paired or item.cell.condition == 0 else n + item.slot
                at = (where[name], item.cell.class_index, place)
                made[at], to_object[at] = True, image.to_object
                if image.to_shift is not None:
                    to_shift[at] = image.to_shift
                right[at], answered[at] = right_answers(image), has_answers(image)
                if image.group is not None:
                    grouped.append((at, image.group))
        known = image_source, conditions, items, tuple(config.classes), models
        units = _units(shape, grouped)
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


def _units(shape: tuple[int, int, int], grouped: Sequence[tuple[Place, str]]) -> Units | None:
    """The place of the first image of each one's group, in the base if that has it; None without groups.

    Base and shifted images of one group are drawn together, so they have one place.
    """
    if not grouped:
        return None
    first: dict[tuple[int, int, str], int] = {}
    for (condition, index, place), group in grouped:
        first.setdefault((condition, index, group), place)
    units = np.broadcast_to(np.arange(shape[2]), shape).copy()
    for (condition, index, place), group in grouped:
        units[condition, index, place] = first.get((0, index, group), first[condition, index, group])
    return units


@dataclass(frozen=True)
class RealEvidence:
    """The real images that are done, by class: similarities in both forms of caption, and answers."""

    images: Mapping[str, Sequence[Image]]
    models: tuple[str, ...]
    failed: int

    @classmethod
    def of(cls, placed: Sequence[PlacedItem], config: ShiftBenchmarkConfig) -> RealEvidence:
        """Lay out the real images."""
        by_class: dict[str, list[Image]] = {name: [] for name in config.classes}
        for item in placed:
            if item.image is not None:
                by_class[item.label].append(item.image)
        failed = sum(item.state == "failed" for item in placed)
        return cls(by_class, tuple(config.request.classifiers), failed)

    @property
    def without(self) -> list[str]:
        """The classes without images."""
        return [name for name, listed in self.images.items() if not listed]

    def similarities(self, *, photo: bool) -> dict[str, list[float]]:
        """The similarities of each class with images to its caption, as a photograph or as plain words."""
        return {name: [_similarity(shown, photo) for shown in listed] for name, listed in self.there.items()}

    @cached_property
    def there(self) -> dict[str, Sequence[Image]]:
        """The classes that have images."""
        return {name: listed for name, listed in self.images.items() if listed}

    @property
    def answers(self) -> RealAnswers | None:
        """The models' answers; None if a class has no image to compare its generated ones with."""
        if self.without:
            return None
        most = max(map(len, self.images.values()))
        there = np.zeros((len(self.images), most), dtype=np.bool_)
        values, answered = (np.zeros((*there.shape, len(self.models)), dtype=np.bool_) for _ in range(2))
        grouped = [
            ((0, index, place), shown.group)
            for index, listed in enumerate(self.images.values())
            for place, shown in enumerate(listed)
            if shown.group is not None
        ]
        units = _units((1, *there.shape), grouped)
        for index, listed in enumerate(self.images.values()):
            there[index, : len(listed)] = True
            values[index, : len(listed)] = [right_answers(shown) for shown in listed]
            answered[index, : len(listed)] = [has_answers(shown) for shown in listed]
        return RealAnswers(values, there, None if units is None else units[0], _partly(answered, there))


def right_answers(image: Image) -> Flags:
    """Whether each model's best class is the image's own (models,); False where it has no answer."""
    return np.asarray(np.frombuffer(image.told, dtype=np.uint8) == 1)


def has_answers(image: Image) -> Flags:
    """Whether each model answered on the image (models,)."""
    return np.asarray(np.frombuffer(image.told, dtype=np.uint8) != _UNANSWERED)


def _partly(answered: Flags, there: Flags) -> Flags | None:
    """The answered images (..., models), or None if every model answered every image that is there."""
    return None if answered[there].all() else answered


def _similarity(image: Image, photo: bool) -> float:
    return image.to_object if photo or image.plain is None else image.plain
