"""Bodies of a benchmark's shift thresholds: what to look at, what somebody decided, what is in force."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Self

from pydantic import Field, model_validator

from faultline_core.contract.base import RequestBody, ResponseBody
from faultline_core.contract.shift_benchmarks import BenchmarkSource, ThresholdSource
from faultline_core.types import BlobRef

Cosine = Annotated[float, Field(ge=-1.0, le=1.0)]
Percentile = Annotated[float, Field(ge=0.0, le=100.0)]


class InspectedPicture(ResponseBody):
    """A picture to look at, by the id of its item; ``similarity`` is that to the shift's caption."""

    item: str
    image: BlobRef
    class_name: str
    similarity: float


class Inspection(ResponseBody):
    """The pictures around one percentile of a shift's similarities."""

    percentile: float
    similarity: float
    pictures: list[InspectedPicture]


class Inspections(ResponseBody):
    """``GET /v1/shift-benchmarks/{id}/inspections``: what to look at before a threshold is set.

    ``n`` pictures of the shift by ``source`` are behind the percentiles, ``pending`` more may come.
    """

    shift: str
    caption: str
    checkpoint: str
    source: BenchmarkSource
    n: int
    pending: int
    inspections: list[Inspection]


class ShiftThresholdSet(RequestBody):
    """``PUT /v1/shift-benchmarks/{id}/shift-thresholds/{shift}``: a decision, in one of three ways.

    ``shows`` says of every inspected picture, by its item's id, whether it shows the shift: the lowest
    percentile at which all do is accepted, as in the paper. ``percentile`` accepts one of those inspected;
    ``threshold`` is a similarity, or None where none was good enough and nothing passes. ``source`` is the
    source whose pictures were inspected, by default the first.
    """

    author: str = Field(min_length=1, max_length=200)
    shows: dict[str, bool] | None = None
    percentile: Percentile | None = None
    threshold: Cosine | None = None
    source: BenchmarkSource | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        given = self.model_fields_set & {"shows", "percentile", "threshold"}
        if len(given) != 1:
            raise ValueError("exactly one of shows, percentile and threshold is wanted")
        if "threshold" not in given and self.shows is None and self.percentile is None:
            raise ValueError("only a threshold may be null")
        return self


class ShiftThresholdDecision(ResponseBody):
    """A decision as it is kept; ``id`` only ever grows, and the newest of a shift is in force.

    It holds for the CLIP ``checkpoint`` alone. ``failing_above`` names higher percentiles at which some
    picture lacks the shift.
    """

    id: int
    shift: str
    checkpoint: str
    author: str
    decided_at: dt.datetime
    percentile: float | None = None
    threshold: float | None = None
    failing_above: list[float] = []


class ThresholdInForce(ResponseBody):
    """The threshold that a summary applies to a shift, and who set it.

    Without ``set_by`` nobody has one for this CLIP, and the shift's criterion is not applied. A person who
    found no percentile good enough sets None (``nothing_passes``).
    """

    threshold: float | None = None
    set_by: ThresholdSource | None = None
    author: str | None = None
    decided_at: dt.datetime | None = None
    percentile: float | None = None
    nothing_passes: bool = False


class ShiftThresholds(ResponseBody):
    """``GET /v1/shift-benchmarks/{id}/shift-thresholds``: those in force, and all decisions, oldest first."""

    in_force: dict[str, ThresholdInForce]
    decisions: list[ShiftThresholdDecision]
