"""The paper's procedure for shift thresholds: images around percentiles, and a reviewer's answers.

Thresholds of a benchmark: images to inspect, recorded decisions, and the thresholds in force.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from counterpose_core.contract.shift_benchmarks import (
    BenchmarkShift,
    ImageSource,
    ShiftBenchmarkConfig,
)
from counterpose_core.contract.shift_thresholds import (
    InspectedImage,
    Inspection,
    Inspections,
    ShiftThresholdDecision,
    ShiftThresholds,
    ShiftThresholdSet,
)
from counterpose_core.errors import InvalidRequest, NotFound
from counterpose_core.shift_benchmark.shift_thresholds import ShiftDecision, decide, inspections
from counterpose_core.shift_benchmark.shifts import BASE
from counterpose_core.text.near_names import did_you_mean
from counterpose_core.text.plain_text import check_words
from counterpose_core.types import FINAL_ITEM_STATES, BlobRef
from counterpose_gateway.methods.shift_benchmark.cells import Cell
from counterpose_gateway.methods.shift_benchmark.thresholds import thresholds_in_force
from counterpose_gateway.records.recorded_items import RecordedItem

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger

_LONGEST_AUTHOR = 200


@dataclass(frozen=True, slots=True)
class ShiftImage:
    """An image of a shift: its item, its class and its similarity to the shift's caption."""

    item: str
    image: BlobRef
    class_name: str
    similarity: float


@dataclass(frozen=True)
class ShiftImages:
    """The images of one shift and image source, with similarities to the caption; ``pending`` may follow."""

    shift: BenchmarkShift
    image_source: ImageSource
    checkpoint: str
    images: Sequence[ShiftImage]
    pending: int

    @classmethod
    def of(
        cls,
        items: Iterable[RecordedItem],
        config: ShiftBenchmarkConfig,
        shift: str,
        image_source: ImageSource | None,
    ) -> ShiftImages:
        """Take the images from the items of a run, read one by one; by default of its first image source.

        Raises:
            NotFound: the benchmark has no such shift.
            InvalidRequest: the benchmark does not have this image source.
        """
        known = next((each for each in config.shifts if each.name == shift != BASE), None)
        if known is None:
            meant = did_you_mean(shift, (each.name for each in config.shifts if each.name != BASE))
            raise NotFound(f"the benchmark has no shift {shift!r}{meant}")
        chosen = image_source or config.request.image_sources[0]
        if chosen not in config.request.image_sources:
            raise InvalidRequest(
                f"{chosen!r} is not an image source of this benchmark", pointer="/image_source"
            )
        made: list[ShiftImage] = []
        pending = 0
        for item in items:
            cell = Cell.of(item.item_group)
            if cell.image_source != chosen or cell.condition_name(config) != known.name:
                continue
            pending += item.state not in FINAL_ITEM_STATES
            result = (item.result if item.state == "done" else None) or {}
            similarity = result.get("shift_similarity")
            if similarity is not None:
                made.append(ShiftImage(item.id, result["image"], item.label, similarity))
        return cls(known, chosen, config.clip, made, pending)

    @property
    def similarities(self) -> list[float]:
        """The similarity of every image to the shift's caption."""
        return [each.similarity for each in self.images]


def inspect(seen: ShiftImages) -> Inspections:
    """Choose the images to inspect (DI, A.3), the lowest percentile first.

    Raises:
        DatasetEmpty: the shift has no image yet.
    """
    rows = [
        Inspection(
            percentile=inspection.percentile,
            similarity=inspection.similarity,
            images=[_inspected(seen, index) for index in inspection.images],
        )
        for inspection in inspections(seen.similarities)
    ]
    return Inspections(
        shift=seen.shift.name,
        caption=seen.shift.caption,
        checkpoint=seen.checkpoint,
        image_source=seen.image_source,
        n=len(seen.images),
        pending=seen.pending,
        inspections=rows,
    )


def decision_of(seen: ShiftImages, body: ShiftThresholdSet, now: dt.datetime) -> ShiftDecision:
    """Turn a request into the decision to record.

    Raises:
        InvalidRequest: images are still being made, one that was inspected was not judged, the percentile
            was not inspected, or the author has no name.
        DatasetEmpty: the shift has no image to inspect.
    """
    check_words(body.author, field="author", most=_LONGEST_AUTHOR)
    if "threshold" in body.model_fields_set:
        return _accepted(seen, body.author, now, None, body.threshold)
    if seen.pending:
        raise InvalidRequest(
            f"{seen.pending} images of {seen.shift.name!r} are not made yet, so percentiles will change; "
            "wait for the run"
        )
    rows = inspections(seen.similarities)
    if body.shows is not None:
        where = {each.item: index for index, each in enumerate(seen.images)}
        unknown = [name for name in body.shows if name not in where]
        if unknown:
            raise InvalidRequest(
                f"{unknown[0]!r} is not an image of this shift and image source", pointer="/shows"
            )
        shows = {where[name]: shown for name, shown in body.shows.items()}
        return decide(
            seen.shift.name, rows, shows, checkpoint=seen.checkpoint, author=body.author, decided_at=now
        )
    inspected = next((inspection for inspection in rows if inspection.percentile == body.percentile), None)
    if inspected is None:
        offered = ", ".join(f"{inspection.percentile:g}" for inspection in rows)
        raise InvalidRequest(
            f"the percentile {body.percentile!r} was not inspected; choose one of {offered}",
            pointer="/percentile",
        )
    return _accepted(seen, body.author, now, inspected.percentile, inspected.similarity)


def _accepted(
    seen: ShiftImages,
    author: str,
    now: dt.datetime,
    percentile: float | None,
    threshold: float | None,
) -> ShiftDecision:
    return ShiftDecision(
        shift=seen.shift.name,
        checkpoint=seen.checkpoint,
        author=author,
        decided_at=now,
        percentile=percentile,
        threshold=threshold,
        failing_above=(),
    )


def _inspected(seen: ShiftImages, index: int) -> InspectedImage:
    return InspectedImage.model_validate(seen.images[index], from_attributes=True)


def inspect_shift(run_id: str, shift: str, image_source: ImageSource | None, ledger: Ledger) -> Inspections:
    """Return the images to inspect before a shift's threshold is set.

    Args:
        run_id: The benchmark.
        shift: The shift by its name.
        image_source: The image source of the images to inspect; None means the benchmark's first.
        ledger: The ledger that holds the benchmark's items.

    Raises:
        NotFound: the run or the shift does not exist.
        InvalidRequest: the benchmark does not have this image source.
        DatasetEmpty: the shift has no image yet.
    """
    return inspect(_shift_images(run_id, shift, image_source, ledger))


def set_threshold(run_id: str, shift: str, body: ShiftThresholdSet, ledger: Ledger) -> ShiftThresholdDecision:
    """Record a reviewer's decision, and return the recorded form.

    Args:
        run_id: The benchmark.
        shift: The shift by its name.
        body: The decision.
        ledger: The ledger that holds the benchmark's items and records the decision.

    Raises:
        NotFound: the run or the shift does not exist.
        InvalidRequest, DatasetEmpty: the decision is not valid; see `threshold_review.decision_of`.
    """
    seen = _shift_images(run_id, shift, body.image_source, ledger)
    return ledger.decisions.add(run_id, decision_of(seen, body, ledger.now()))


def list_thresholds(run_id: str, ledger: Ledger) -> ShiftThresholds:
    """Return the thresholds in force and all recorded decisions.

    Raises:
        NotFound: the run does not exist.
    """
    config, decisions = _config(run_id, ledger), ledger.decisions.of_run(run_id)
    return ShiftThresholds(in_force=thresholds_in_force(config, decisions), decisions=decisions)


def _shift_images(run_id: str, shift: str, image_source: ImageSource | None, ledger: Ledger) -> ShiftImages:
    return ShiftImages.of(ledger.items.recorded(run_id), _config(run_id, ledger), shift, image_source)


def _config(run_id: str, ledger: Ledger) -> ShiftBenchmarkConfig:
    return ShiftBenchmarkConfig.model_validate(ledger.runs.get(run_id).resolved_config)
