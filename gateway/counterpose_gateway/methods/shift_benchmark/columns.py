"""What a benchmark's summary needs of its images, as columns of numbers: some hundred bytes an image.

The images on which a classifier of a benchmark failed, though others answered.

From the recorded items of a benchmark to columns, one item at a time.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterpose_core.contract.runs import Run
from counterpose_core.contract.scored import scored_document
from counterpose_core.contract.shift_benchmark_summary import ImageSourceSummary, UnansweredImages
from counterpose_core.contract.shift_benchmarks import ImageItem, ImageSourceOrReal, ShiftBenchmarkConfig
from counterpose_core.images.near_duplicates import joined_by
from counterpose_core.statistics.coded import Flags, Floats, Ints
from counterpose_core.types import BlobRef, Cost, ItemState
from counterpose_gateway.methods.shift_benchmark.cells import Cell
from counterpose_gateway.records.recorded_items import RecordedItem
from counterpose_gateway.runs.recorded import recorded_config
from counterpose_gateway.steps.outcomes_in_words import outcome_of, outcome_shares
from counterpose_gateway.summaries.columns import NONE, Codes

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger

_UNKNOWN = "no reason was recorded"


class Failures:
    """How many images each classifier failed on, and why it failed on the first of them."""

    def __init__(self) -> None:
        self.asked = 0
        self.images: Counter[str] = Counter()
        self.first: dict[str, str] = {}
        self.reasons: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def add(self, answers: Collection[str], reasons: Mapping[str, str], models: Sequence[str]) -> None:
        """Add an image that the classifiers were asked about: who answered, and why others did not."""
        self.asked += 1
        for model in models:
            if model not in answers:
                self.images[model] += 1
                why = reasons.get(model, _UNKNOWN)
                self.first.setdefault(model, why)
                self.reasons[model][outcome_of(why)] += 1


def summarize_unanswered(
    failures: Failures, image_sources: Mapping[str, ImageSourceSummary]
) -> list[UnansweredImages]:
    """List the classifiers that failed on images, the most often first.

    One without a figure under any shift gets the state ``cannot-tell``.
    """
    shifts = [shift for image_source in image_sources.values() for shift in image_source.shifts.values()]
    judged = {model for shift in shifts if shift.effect is not None for model in shift.effect.models}
    found = [
        UnansweredImages(
            classifier=model,
            images=images,
            of=failures.asked,
            detail=failures.first[model],
            outcomes=outcome_shares(failures.reasons[model], failures.asked),
            state=None if model in judged else "cannot-tell",
        )
        for model, images in failures.images.items()
    ]
    return sorted(found, key=lambda one: (-one.images, one.classifier))


def count_unanswered(answered: Flags | None, kept: Flags, models: Sequence[str]) -> dict[str, int]:
    """Count the images in ``kept`` (...) that a model did not answer (..., models), of those with any."""
    if answered is None:
        return {}
    missing = (kept[..., None] & ~answered).reshape(-1, len(models)).sum(axis=0)
    return {model: int(count) for model, count in zip(models, missing, strict=True) if count}


UNANSWERED = 2
"""The answer of a model that failed on an image; 1 is a right answer, 0 a wrong one."""

_NOTHING: Mapping[str, Any] = {}


class Usage:
    """What one image source used: its cost, the weights behind each name, its lists of unsearched images."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.weights: dict[str, set[str]] = {}
        self.unsearched: set[BlobRef] = set()
        self._costs: Counter[str] = Counter()

    @property
    def cost(self) -> Cost:
        """The cost of all items."""
        return Cost.model_validate(self._costs)

    def add(self, result: Mapping[str, Any]) -> None:
        """Add the usage of one item by its recorded result."""
        self._costs.update(result.get("cost", _NOTHING))
        self.seconds.update(result.get("service_seconds", _NOTHING))
        for name, model in result.get("models", _NOTHING).items():
            self.weights.setdefault(name, set()).add(model)
        if (unsearched := result.get("unsearched")) is not None:
            self.unsearched.add(unsearched)


@dataclass(frozen=True, eq=False)
class ImageColumns:
    """The items of a run in planned order; the names of codes are in the `Codes` of the same name.

    ``made`` are those that have an image. Similarities are NaN where there is none; ``plain`` is that of a
    real image with its class in plain words. ``told`` (items, models) are answers. ``group`` is that of
    images which are not independent, such as frames of one video; ``repeated`` of the ``retrieved`` images
    count once with another one.
    """

    image_source: Ints
    condition: Ints
    class_index: Ints
    slot: Ints
    state: Ints
    reason: Ints
    code: Ints
    group: Ints
    made: Flags
    to_object: Floats
    plain: Floats
    to_shift: Floats
    told: NDArray[np.uint8]
    names: Mapping[str, Codes]
    usage: Mapping[ImageSourceOrReal, Usage]
    failures: Failures
    retrieved: int
    repeated: int

    def __len__(self) -> int:
        return len(self.made)

    def rows(self, image_source: ImageSourceOrReal) -> Ints:
        """The places of the items of one image source."""
        return np.flatnonzero(self.image_source == self.names["image_source"].find(image_source))

    def of_state(self, rows: Ints, state: ItemState) -> Ints:
        """Those of these rows whose items are in a state."""
        return np.asarray(rows[self.state[rows] == self.names["state"].find(state)])

    def counted(self, column: str, rows: Ints) -> dict[str, int]:
        """How many of these rows have each name of a column, in the order in which they first occur."""
        codes: Ints = getattr(self, column)[rows]
        return {self.name(column, code): count for code, count in Counter(codes.tolist()).items()}

    def name(self, column: str, code: int) -> str:
        """The name of a code of a column; ``unknown`` where it is missing."""
        return "unknown" if code == NONE else self.names[column].names[code]

    def right(self, rows: Ints) -> Flags:
        """Whether each model's best class is the image's own (rows, models); False where it has no answer."""
        return np.asarray(self.told[rows] == 1)

    def answered(self, rows: Ints) -> Flags:
        """Whether each model answered on the image (rows, models)."""
        return np.asarray(self.told[rows] != UNANSWERED)


_SHORT = ("image_source", "condition", "slot", "state", "reason", "code")
"""Numbers of few values take two bytes: a cell has at most 10,000 images."""
_LONG = ("class_index", "group")
_SIMILARITIES = {
    "to_object": "object_similarity",
    "plain": "plain_similarity",
    "to_shift": "shift_similarity",
}
_NAN = float("nan")


def read_columns(run: Run, ledger: Ledger) -> ImageColumns:
    """Read the columns of a run from the ledger; memory grows by some hundred bytes an image."""
    config = recorded_config(ShiftBenchmarkConfig, run)
    reading = Reading(config.request.classifiers, config.groups)
    for item in ledger.items.recorded(run.id):
        reading.add(item)
    return reading.columns()


def columns_of(items: Iterable[ImageItem], config: ShiftBenchmarkConfig) -> ImageColumns:
    """Make columns of items that are in memory."""
    reading = Reading(config.request.classifiers, config.groups)
    for item in items:
        reading.add(RecordedItem.of(item))
    return reading.columns()


class Reading:
    """The growing columns of a benchmark's items."""

    def __init__(self, models: Sequence[str], groups: Mapping[BlobRef, str]) -> None:
        """Read answers of these models; ``groups`` names the group of images that are not independent."""
        self._models = models
        self._groups = groups
        self._numbers = {name: array("h" if name in _SHORT else "i") for name in (*_SHORT, *_LONG)}
        self._names = {name: Codes() for name in ("image_source", "state", "reason", "code", "group")}
        self._similarities = {name: array("d") for name in _SIMILARITIES}
        self._made = array("b")
        self._told = bytearray()
        self._usage: dict[ImageSourceOrReal, Usage] = {}
        self._failures = Failures()
        self._images = Codes()
        self._found = array("i"), array("i"), array("i")

    def add(self, item: RecordedItem) -> None:
        """Add the next item."""
        cell, names = Cell.of(item.item_group), self._names
        result = (item.result if item.state == "done" else None) or _NOTHING
        if result and cell.image_source == "retrieval":
            self._add_retrieved(result)
        known = {
            "image_source": names["image_source"].add(cell.image_source),
            "condition": cell.condition,
            "class_index": cell.class_index,
            "slot": item.slot,
            "state": names["state"].add(item.state),
            "reason": names["reason"].add(item.reason),
            "code": names["code"].add(item.code),
            "group": names["group"].add(self._groups.get(result.get("image", ""))),
        }
        for name, numbers in self._numbers.items():
            numbers.append(known[name])
        usage = self._usage.get(cell.image_source)
        if usage is None:
            usage = self._usage[cell.image_source] = Usage()
        if item.result is not None:
            usage.add(item.result)
        self._add_image(result)

    def _add_image(self, result: Mapping[str, Any]) -> None:
        self._made.append(bool(result))
        for name, numbers in self._similarities.items():
            similarity = result.get(_SIMILARITIES[name])
            numbers.append(_NAN if similarity is None else similarity)
        predictions = result.get("predictions", _NOTHING)
        if result:
            self._failures.add(predictions, result.get("unanswered", _NOTHING), self._models)
        for model in self._models:
            pair = predictions.get(model)
            self._told.append(UNANSWERED if pair is None else scored_document(pair)["hits"][0])

    def _add_retrieved(self, result: Mapping[str, Any]) -> None:
        rows, images, alike = self._found
        rows.append(len(self._made))
        images.append(self._images.add(result["image"]))
        alike.append(self._images.add(result.get("alike") or result["image"]))

    def columns(self) -> ImageColumns:
        """Return the columns of all items so far."""
        numbers = {name: np.array(values, values.typecode) for name, values in self._numbers.items()}
        rows, images, alike = (np.array(each, np.intp) for each in self._found)
        classes, named = numbers["class_index"][rows], numbers["group"][rows]
        groups = retrieved_groups(Retrieved(classes, images, alike, named))
        numbers["group"][rows] = groups
        known = np.stack([classes, groups])[:, groups != NONE]
        return ImageColumns(
            **numbers,
            made=np.array(self._made, np.bool_),
            **{name: np.array(values) for name, values in self._similarities.items()},
            told=np.frombuffer(bytes(self._told), np.uint8).reshape(len(self._made), len(self._models)),
            names=self._names,
            usage=self._usage,
            failures=self._failures,
            retrieved=len(rows),
            repeated=known.shape[1] - len(np.unique(known, axis=1).T),
        )


@dataclass(frozen=True, eq=False)
class Retrieved:
    """Retrieved images (n,) by codes: the class of each, the image itself, one that is nearly equal to it.

    ``alike`` is the image that the same search found nearly equal, or the image itself. ``named`` is its
    group in its dataset, `NONE` where it has none.
    """

    label: Ints
    image: Ints
    alike: Ints
    named: Ints


def retrieved_groups(found: Retrieved) -> Ints:
    """Return the number of the group of each image (n,), `NONE` where it is alone of its class in its group.

    An image that several conditions of a class have is one image. Groups that share an image are one.
    """
    n = len(found.label)
    every, in_group = np.arange(n), np.flatnonzero(found.named != NONE)
    # Groups have codes of their own, which start where those of images end.
    images = 1 + max(found.image.max(initial=-1), found.alike.max(initial=-1))
    keys = np.concatenate([found.image, found.alike, images + found.named[in_group]])
    ends = np.concatenate([every, every, in_group])
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    numbers = joined_by(n, np.stack([ends[first][inverse], ends], axis=1))
    _, place, sizes = np.unique(
        np.stack([found.label, numbers]), axis=1, return_inverse=True, return_counts=True
    )
    return np.where(sizes[place.reshape(-1)] > 1, numbers, NONE)
