"""Bodies of a benchmark's shift thresholds: images to inspect, decisions, and the thresholds in force."""

import datetime as dt
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from counterpose_core.contract.base import ClientBody, ResponseBody
from counterpose_core.contract.shift_benchmarks import ImageSource, ThresholdSetter
from counterpose_core.types import BlobRef, Cosine

WAYS = ("shows", "percentile", "threshold")
"""The ways to decide on a threshold; a decision takes one of them."""

Percentile = Annotated[float, Field(ge=0.0, le=100.0)]


def _never_null(schema: dict[str, Any]) -> None:
    """Say in the schema that the field may be left out but not be null."""
    schema |= schema.pop("anyOf")[0]
    del schema["default"]


class InspectedImage(ResponseBody):
    """An image to look at before a threshold is set."""

    item: str
    """Id of the image's item."""
    image: BlobRef
    """SHA-256 of the image in the store."""
    class_name: str
    """Class of the image."""
    similarity: float
    """CLIP cosine of the image with the shift's caption."""


class Inspection(ResponseBody):
    """The images around one percentile of a shift's similarities."""

    percentile: float
    """The percentile, in [0, 100]."""
    similarity: float
    """CLIP cosine at this percentile."""
    images: list[InspectedImage]
    """The images nearest to this percentile."""


class Inspections(ResponseBody):
    """``GET /v1/runs/{run_id}/inspections``: images to look at before a threshold is set."""

    shift: str
    """Name of the shift."""
    caption: str
    """Caption that the images are compared with."""
    checkpoint: str
    """CLIP checkpoint that the similarities come from."""
    image_source: ImageSource
    """Image source of the images."""
    n: int
    """Number of images that the percentiles are computed from."""
    pending: int
    """Number of images that are not finished yet."""
    inspections: list[Inspection]
    """Images around each percentile, lowest percentile first."""


class ShiftThresholdSet(ClientBody, json_schema_extra={"oneOf": [{"required": [way]} for way in WAYS]}):
    """``PUT /v1/runs/{run_id}/shift-thresholds/{shift}``: a decision, given in one way."""

    author: str = Field(min_length=1, max_length=200)
    """Name of the person who decided."""
    shows: dict[str, bool] | None = Field(default=None, json_schema_extra=_never_null)
    """Whether each inspected image shows the shift, by the id of its item; the lowest percentile at which all
    images do is accepted, as in the paper."""
    percentile: Percentile | None = Field(default=None, json_schema_extra=_never_null)
    """One of the inspected percentiles, to accept its similarity as the threshold."""
    threshold: Cosine | None = None
    """Lowest CLIP cosine that passes, or an explicit null if no image was good enough and none should
    pass."""
    image_source: ImageSource | None = None
    """Image source whose images were inspected, or null for the first of the benchmark."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        given = self.model_fields_set & set(WAYS)
        if len(given) != 1:
            raise ValueError("give exactly one of shows, percentile and threshold")
        if "threshold" not in given and self.shows is None and self.percentile is None:
            raise ValueError("shows and percentile must not be null; only threshold may be")
        return self


class ShiftThresholdDecision(ResponseBody):
    """A recorded decision; the newest for a shift is in force."""

    id: int
    """Number of the decision; later decisions have larger numbers."""
    shift: str
    """Name of the shift."""
    checkpoint: str
    """CLIP checkpoint that the decision holds for."""
    author: str
    """Name of the person who decided."""
    decided_at: dt.datetime
    """When it was decided, in UTC."""
    percentile: float | None = None
    """Accepted percentile, or null if a threshold was given or nothing passes."""
    threshold: float | None = None
    """Lowest CLIP cosine that passes, or null if nothing passes."""
    failing_above: list[float] = []
    """Higher percentiles at which at least one image does not show the shift."""


class ThresholdInForce(ResponseBody):
    """The threshold that a summary applies to a shift."""

    threshold: float | None = None
    """Lowest CLIP cosine that passes, or null if there is no threshold or nothing passes."""
    set_by: ThresholdSetter | None = None
    """Who set the threshold, or null if none is known for this CLIP, so that the shift criterion is not
    applied."""
    author: str | None = None
    """Name of the person who decided, or null if no person did."""
    decided_at: dt.datetime | None = None
    """When it was decided, in UTC, or null if no person did."""
    percentile: float | None = None
    """Accepted percentile, or null if none was."""
    nothing_passes: bool = False
    """Whether a person found no percentile good enough, so that no image passes."""


class ShiftThresholds(ResponseBody):
    """``GET /v1/runs/{run_id}/shift-thresholds``: thresholds in force, and every decision."""

    in_force: dict[str, ThresholdInForce]
    """The threshold in force, by shift."""
    decisions: list[ShiftThresholdDecision]
    """Every decision, oldest first."""
