"""The paper's procedure for shift thresholds: pictures around percentiles, and what somebody saw on them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from faultline_core.contract.shift_benchmarks import (
    BenchmarkShift,
    BenchmarkSource,
    PictureItem,
    PictureResult,
    ShiftBenchmarkConfig,
)
from faultline_core.contract.shift_thresholds import (
    InspectedPicture,
    Inspection,
    Inspections,
    ShiftThresholdSet,
)
from faultline_core.errors import InvalidRequest, NotFound
from faultline_core.shift_thresholds import ShiftDecision, decide, inspections
from faultline_core.shifts import BASE
from faultline_core.texts import check_words
from faultline_core.types import FINAL_ITEM_STATES
from faultline_gateway.workflows.benchmark_cells import Cell

_LONGEST_AUTHOR = 200


@dataclass(frozen=True)
class ShiftPictures:
    """The pictures of one shift by one source, with similarities to its caption; ``pending`` may follow."""

    shift: BenchmarkShift
    source: BenchmarkSource
    checkpoint: str
    pictures: Sequence[tuple[PictureItem, PictureResult, float]]
    pending: int

    @classmethod
    def of(
        cls,
        items: Sequence[PictureItem],
        config: ShiftBenchmarkConfig,
        shift: str,
        source: BenchmarkSource | None,
    ) -> ShiftPictures:
        """Take them from the items of a run; by default those of its first source.

        Raises:
            NotFound: the benchmark has no such shift.
            InvalidRequest: the source is none of the benchmark's.
        """
        known = next((each for each in config.shifts if each.name == shift != BASE), None)
        if known is None:
            raise NotFound(f"the benchmark has no shift {shift!r}")
        chosen = source or config.request.sources[0]
        if chosen not in config.request.sources:
            raise InvalidRequest(f"{chosen!r} is none of the benchmark's sources", pointer="/source")
        cells = [(item, Cell.of(item.source_id)) for item in items]
        wanted = [
            item
            for item, cell in cells
            if cell.source == chosen and cell.condition_name(config) == known.name
        ]
        made = [
            (item, item.result, item.result.shift_similarity)
            for item in wanted
            if item.state == "done" and item.result and item.result.shift_similarity is not None
        ]
        pending = sum(item.state not in FINAL_ITEM_STATES for item in wanted)
        return cls(known, chosen, config.clip, made, pending)

    @property
    def similarities(self) -> list[float]:
        """Those of every picture to the shift's caption."""
        return [similarity for _, _, similarity in self.pictures]


def inspect(seen: ShiftPictures) -> Inspections:
    """Choose the pictures to look at (DI, A.3), the lowest percentile first.

    Raises:
        DatasetEmpty: there is no picture yet.
    """
    rows = [
        Inspection(
            percentile=each.percentile,
            similarity=each.similarity,
            pictures=[_inspected(seen, index) for index in each.pictures],
        )
        for each in inspections(seen.similarities)
    ]
    return Inspections(
        shift=seen.shift.name,
        caption=seen.shift.caption,
        checkpoint=seen.checkpoint,
        source=seen.source,
        n=len(seen.pictures),
        pending=seen.pending,
        inspections=rows,
    )


def decided(seen: ShiftPictures, body: ShiftThresholdSet, now: dt.datetime) -> ShiftDecision:
    """Make of a request what is kept.

    Raises:
        InvalidRequest: pictures are still being made, one that was inspected was not judged, the percentile
            was not inspected, or the author has no name.
        DatasetEmpty: there is no picture to have looked at.
    """
    check_words(body.author, field="author", most=_LONGEST_AUTHOR)
    if "threshold" in body.model_fields_set:
        return _accepted(seen, body.author, now, None, body.threshold)
    if seen.pending:
        raise InvalidRequest(
            f"{seen.pending} pictures of {seen.shift.name!r} are still to be made: percentiles will move"
        )
    rows = inspections(seen.similarities)
    if body.shows is not None:
        where = {item.id: index for index, (item, _, _) in enumerate(seen.pictures)}
        unknown = [name for name in body.shows if name not in where]
        if unknown:
            raise InvalidRequest(f"{unknown[0]!r} is no picture of this shift and source", pointer="/shows")
        shows = {where[name]: shown for name, shown in body.shows.items()}
        return decide(
            seen.shift.name, rows, shows, checkpoint=seen.checkpoint, author=body.author, decided_at=now
        )
    found = next((each for each in rows if each.percentile == body.percentile), None)
    if found is None:
        offered = ", ".join(f"{each.percentile:g}" for each in rows)
        raise InvalidRequest(
            f"the percentile {body.percentile!r} was not inspected; these were: {offered}",
            pointer="/percentile",
        )
    return _accepted(seen, body.author, now, found.percentile, found.similarity)


def _accepted(
    seen: ShiftPictures,
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


def _inspected(seen: ShiftPictures, index: int) -> InspectedPicture:
    item, result, similarity = seen.pictures[index]
    return InspectedPicture(item=item.id, image=result.image, class_name=item.label, similarity=similarity)
