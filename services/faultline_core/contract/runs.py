"""Bodies that every run shares: state, counts, items, events."""

from __future__ import annotations

import datetime as dt
from typing import Any, Generic, TypeVar

from pydantic import Field, model_validator

from faultline_core.contract.base import Problem, ResponseBody
from faultline_core.contract.editor import EditorPreset
from faultline_core.contract.features import FeatureVector, WordFeatures
from faultline_core.contract.perturber import TextLikelihood, WordSpan
from faultline_core.contract.scorer import EditScores
from faultline_core.types import BlobRef, Cost, EditType, ItemKind, ItemState, RunKind, RunState


class RequestCounts(ResponseBody):
    """How many items are in which state; ``total`` is always the sum of the rest."""

    total: int
    pending: int
    done: int
    filtered: int
    failed: int
    cancelled: int

    @model_validator(mode="after")
    def _adds_up(self) -> RequestCounts:
        # Checked where it is written and where it is read: a sum that is short hides lost items.
        if self.total != self.pending + self.done + self.filtered + self.failed + self.cancelled:
            raise ValueError("counts do not add up")
        return self


class Run(ResponseBody):
    """A long operation: its state, progress and the configuration it was resolved to."""

    id: str
    kind: RunKind
    state: RunState
    dataset: str
    created_at: dt.datetime
    started_at: dt.datetime | None = None
    ended_at: dt.datetime | None = None
    request_counts: RequestCounts
    resolved_config: dict[str, Any]
    problem: Problem | None = None


class RunList(ResponseBody):
    """A page of runs, newest first; ``after`` is the cursor of the next page."""

    runs: list[Run]
    after: str | None = None


class PredictionPair(ResponseBody):
    """What one classifier said about one picture: p(true class), rank of the true class from 1, five best."""

    p_true: float
    rank_true: int = Field(ge=1)
    top: list[tuple[str, float]]


class Provenance(ResponseBody):
    """Which weights answered for an item, and what that took.

    What one call did for several items of a group (``service_seconds``, shared ``cost``) is booked
    once, on the first of them that has a result: sums over items are exact.
    """

    models: dict[str, str] = {}
    cost: Cost = Cost()
    service_seconds: dict[str, float] = {}


class ItemResult(Provenance):
    """What an item of a stress test made: the counterfactual, its provenance, scores and predictions.

    ``self_replace_tried`` are the values of the sweep that were made for the choice, in the preset's
    order.

    Recorded of kept pictures, where the services gave it: CLIP's features of the picture and of the
    changed words, and the ``likelihood`` of the edited caption under the language model that ``models``
    names; on the reconstruction ``source_features`` of the original and its caption's likelihood.
    """

    image: BlobRef
    caption: str
    edited_caption: str | None = None
    removed: list[WordSpan] = []
    added: list[WordSpan] = []
    self_replace: float | None = None
    self_replace_tried: list[float] = []
    scores: EditScores | None = None
    predictions: dict[str, PredictionPair] = {}
    original_predictions: dict[str, PredictionPair] = {}
    psnr_db: float | None = None
    image_features: FeatureVector | None = None
    source_features: FeatureVector | None = None
    word_features: WordFeatures | None = None
    likelihood: TextLikelihood | None = None
    preset: EditorPreset | None = None


Result = TypeVar("Result", bound=Provenance)


class RunItem(ResponseBody, Generic[Result]):
    """One unit of work of a run of any kind, which ends in one recorded outcome."""

    id: str
    ordinal: int
    kind: ItemKind
    source_id: str
    source_image: BlobRef
    label: str
    edit_type: EditType | None = None
    slot: int = 0
    state: ItemState
    reason: str | None = None
    code: str | None = None
    detail: str | None = None
    attempts: int = 0
    result: Result | None = None


class Item(RunItem[ItemResult]):
    """One unit of work of a stress test."""


AnyItem = TypeVar("AnyItem", bound=RunItem[Any])


class PageOfItems(ResponseBody, Generic[AnyItem]):
    """A page of items in ordinal order; ``after`` is the opaque cursor of the next page."""

    items: list[AnyItem]
    after: str | None = None


class RunEvent(ResponseBody):
    """One line of progress; ``id`` only ever grows."""

    id: int
    run_id: str
    state: RunState
    request_counts: RequestCounts
    message: str = ""
