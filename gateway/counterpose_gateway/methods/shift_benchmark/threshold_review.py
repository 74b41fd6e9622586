"""The paper's procedure for shift thresholds: images around percentiles, and a reviewer's answers.

Thresholds of a benchmark: images to inspect, recorded decisions, and the thresholds in force.

The thresholds of a benchmark: objects' from real images, shifts' from reviewers; and their verdicts.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from counterpose_core.contract.shift_benchmark_summary import (
    ObjectThresholdSummary,
    RealSummary,
    ShiftBenchmarkSummary,
)
from counterpose_core.contract.shift_benchmarks import (
    BenchmarkShift,
    ImageResult,
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
    ThresholdInForce,
)
from counterpose_core.errors import InvalidRequest, NotFound
from counterpose_core.shift_benchmark.object_thresholds import ObjectThresholds, object_thresholds
from counterpose_core.shift_benchmark.shift_thresholds import ShiftDecision, decide, inspections
from counterpose_core.shift_benchmark.shifts import BASE
from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.statistics.coded import Floats
from counterpose_core.text.near_names import did_you_mean
from counterpose_core.text.plain_text import check_words
from counterpose_core.types import FINAL_ITEM_STATES, BlobRef
from counterpose_gateway.methods.shift_benchmark.cells import Cell
from counterpose_gateway.methods.shift_benchmark.columns import count_unanswered
from counterpose_gateway.methods.shift_benchmark.evidence import RealEvidence
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
    seen: ShiftImages, author: str, now: dt.datetime, percentile: float | None, threshold: float | None
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


_EVERYTHING = -np.inf
"""The threshold of a class without real images: every image passes."""


@dataclass(frozen=True)
class ThresholdsByForm:
    """The thresholds for photographs and for styles, whose captions do not say "a photo of"."""

    photo: ObjectThresholds
    plain: ObjectThresholds

    @classmethod
    def of(cls, real: RealEvidence, *, checkpoint: str, percentile: float) -> ThresholdsByForm:
        """Take the percentile of each class that has real images.

        Raises:
            InvalidRequest: the percentile is not valid.
        """
        photo, plain = (
            object_thresholds(
                real.similarities(photo=form), checkpoint=checkpoint, percentile=percentile, photo=form
            )
            for form in (True, False)
        )
        return cls(photo, plain)

    def least(self, conditions: Sequence[BenchmarkShift], classes: Sequence[str]) -> Floats:
        """The lowest similarities that pass (conditions, classes)."""
        forms = [self.photo if shift.photo else self.plain for shift in conditions]
        return np.array([[_least(form, name) for name in classes] for form in forms], dtype=np.float64)


def _least(form: ObjectThresholds, class_name: str) -> float:
    known = form.by_class.get(class_name)
    threshold = None if known is None else known.threshold.estimate
    return _EVERYTHING if threshold is None else threshold


def summarize_real(real: RealEvidence, limits: ThresholdsByForm) -> RealSummary:
    """Sum up the real images and the thresholds that they set."""
    rows = real.rows
    right, answered = real.columns.right(rows), real.columns.answered(rows)
    return RealSummary(
        images=len(rows),
        failed=real.failed,
        thresholds={
            name: ObjectThresholdSummary(
                threshold=threshold.threshold,
                plain=limits.plain.by_class[name].threshold,
                dropped=threshold.dropped,
            )
            for name, threshold in limits.photo.by_class.items()
        },
        models={
            model: proportion(int(right[:, at].sum()), int(answered[:, at].sum()))
            for at, model in enumerate(real.models)
        },
        unanswered=count_unanswered(answered, np.ones(len(rows), dtype=np.bool_), real.models),
        without=real.without,
    )


def thresholds_in_force(
    config: ShiftBenchmarkConfig, decisions: Iterable[ShiftThresholdDecision]
) -> dict[str, ThresholdInForce]:
    """The threshold of each shift but the base; ``decisions`` come oldest first."""
    # Another CLIP's similarities have another scale: decisions based on them do not apply here.
    newest = {decision.shift: decision for decision in decisions if decision.checkpoint == config.clip}
    shifts = (shift for shift in config.shifts if shift.name != BASE)
    return {shift.name: _in_force(shift, newest.get(shift.name)) for shift in shifts}


def _in_force(shift: BenchmarkShift, decision: ShiftThresholdDecision | None) -> ThresholdInForce:
    if decision is None:
        return ThresholdInForce(threshold=shift.threshold, set_by=shift.threshold_from)
    return ThresholdInForce(
        threshold=decision.threshold,
        set_by="person",
        author=decision.author,
        decided_at=decision.decided_at,
        percentile=decision.percentile,
        nothing_passes=decision.threshold is None,
    )


Verdict = Literal["kept", "object", "shift", "object and shift"]
"""``kept``, or the part that the image lacks."""


def filter_verdict(result: ImageResult, class_name: str, summary: ShiftBenchmarkSummary) -> Verdict:
    """Compare one image with the thresholds of ``summary``, as its figures did.

    Real images set the thresholds and are not judged by them: they are ``kept``.
    """
    if result.image_source == "real":
        return "kept"
    shift = next(condition for condition in summary.config.shifts if condition.name == result.shift)
    has_object = _has_object(result, class_name, shift, summary)
    has_shift = _has_shift(result, summary)
    if has_object and has_shift:
        return "kept"
    return "object and shift" if not (has_object or has_shift) else "shift" if has_object else "object"


def _has_object(
    result: ImageResult, class_name: str, shift: BenchmarkShift, summary: ShiftBenchmarkSummary
) -> bool:
    known = summary.real.thresholds.get(class_name)
    if known is None:
        return True
    least = (known.threshold if shift.photo else known.plain).estimate
    return least is None or result.object_similarity >= least


def _has_shift(result: ImageResult, summary: ShiftBenchmarkSummary) -> bool:
    if result.shift == BASE:
        return True
    shift_summary = summary.image_sources[result.image_source].shifts.get(result.shift)
    if shift_summary is None:
        return True
    threshold = shift_summary.threshold
    if threshold.nothing_passes:
        return False
    if threshold.threshold is None:
        return True
    return result.shift_similarity is not None and result.shift_similarity >= threshold.threshold
