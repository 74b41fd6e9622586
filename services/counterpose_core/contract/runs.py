"""Bodies that every run shares: state, counts, items, events."""

import datetime as dt
from typing import Annotated, Any, Generic, Self, TypeVar

from pydantic import Field, SkipValidation, model_validator

from counterpose_core.contract.base import ClientBody, Problem, ResponseBody, told_apart_by
from counterpose_core.contract.classifiers import FunctionsOfCaller
from counterpose_core.contract.confirmation import Instruction
from counterpose_core.contract.editor_presets import EditorPreset
from counterpose_core.contract.features import FeatureVector, WordFeatures
from counterpose_core.contract.judges import Judgement
from counterpose_core.contract.perturber import TextLikelihood, WordSpan
from counterpose_core.contract.preservation import Preservation
from counterpose_core.contract.recipes import PixelDigest
from counterpose_core.contract.regions import ConfinedEdit
from counterpose_core.contract.scored import Scored
from counterpose_core.contract.scorer import EditScores, Segment
from counterpose_core.contract.served_images import ServedImage
from counterpose_core.contract.spending import LargerLimits, Spending
from counterpose_core.contract.stress_test_thresholds import SweepScores, TextScores
from counterpose_core.contract.suite_fit import SuiteFit
from counterpose_core.text_form import TextForm
from counterpose_core.types import BlobRef, Cost, EditType, ItemKind, ItemState, RunState


class RequestCounts(ResponseBody):
    """Number of items of a run in each state."""

    total: int
    """Number of items planned so far; always the sum of the other counts."""
    pending: int
    """Items that have not ended yet, including those a worker has leased."""
    done: int
    """Items that ended with a result."""
    filtered: int
    """Items that a filter dropped."""
    failed: int
    """Items that failed."""
    cancelled: int
    """Items that were cancelled before they ended."""

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        # Checked when written and when read: a sum that is too small would hide lost items.
        if self.total != self.pending + self.done + self.filtered + self.failed + self.cancelled:
            raise ValueError(f"the counts do not add up to the total of {self.total}")
        return self


class Run(ResponseBody):
    """A long operation of any kind: its state, progress and configuration."""

    id: str
    """Id of the run."""
    kind: str
    """What kind of run it is; another version may know further kinds."""
    state: RunState
    """State of the run: `validating` while its items are being planned and `total` grows."""
    dataset: str
    """Name of the dataset that the run is about."""
    created_at: dt.datetime
    """When the run was created, in UTC."""
    started_at: dt.datetime | None = None
    """When a worker took the first item, in UTC, or null if none has."""
    ended_at: dt.datetime | None = None
    """When the run ended, in UTC, or null if it has not."""
    request_counts: RequestCounts
    """Number of items in each state."""
    resolved_config: dict[str, Any]
    """Everything that the run depends on, fixed when it was created; its fields depend on the kind."""
    problem: Problem | None = None
    """Why the run as a whole failed, or null if it did not."""
    stage: int = Field(default=1, ge=1)
    """The current stage; the items of later stages are planned from recorded results."""
    parent: str | None = None
    """The ended run that this run continues; an ended run is never reopened."""
    name: str | None = None
    """Name that a user gave the run, or null."""


class RunRename(ClientBody):
    """``PATCH /v1/runs/{id}``: a name for people; the id stays."""

    name: (
        Annotated[
            str,
            Field(min_length=1, max_length=120, pattern=r"^\S(.*\S)?$"),
            TextForm("must be at most 120 characters in one line, without spaces at its ends"),
        ]
        | None
    )
    """Name of the run in listings, or null to take it away."""


class RunResume(FunctionsOfCaller):
    """``POST /v1/runs/{id}/resume``; a body is needed only for functions served again, or a larger budget.

    ``functions``: those of the run that a program serves at another address now.
    """

    spending: LargerLimits | None = Field(default=None, exclude_if=lambda limits: limits is None)
    """New limits of what the run may ask servers of others for; needed where it stopped at one."""


class RunList(ResponseBody):
    """A page of runs, newest first."""

    runs: list[Run]
    """The runs of this page."""
    after: str | None = None
    """Cursor of the next page, or null on the last page."""


class CommonestFailure(ResponseBody):
    """Why most of a run's failed items failed."""

    code: str
    """The error code of most of the failed items."""
    detail: str
    """The commonest detail of this code."""
    items: int = Field(ge=1)
    """Number of items that failed with this code."""
    failed: int = Field(ge=1)
    """Number of items that failed."""
    of: int = Field(ge=1)
    """Number of planned items."""

    def __str__(self) -> str:
        most = "" if self.items == self.failed else f"{self.items} of them "
        return f"{self.failed} of {self.of} items failed, {most}by {self.code}: {self.detail}"


class RunSummary(ResponseBody, json_schema_extra=told_apart_by("kind")):
    """What the summaries of runs of several kinds say alike; each has a `kind`, which tells them apart."""

    failure: CommonestFailure | None = None
    """Why most of the failed items failed, or null if none did."""
    spending: Spending | None = Field(default=None, exclude_if=lambda spending: spending is None)
    """What the run asked servers of others for; absent where no service calls one."""

    @property
    def spending_lines(self) -> list[str]:
        """What the run asked servers of others for, in sentences; none where no service calls one."""
        return [] if self.spending is None else self.spending.lines


class TransformedImage(ResponseBody):
    """What an operation at a level made of a photograph, by the answers to it."""

    operation: str
    """Name of the operation, `identity` for the control, or `placebo`."""
    level: int
    """The level, from 1; 0 for the control and the placebo."""
    recipe: str
    """The recipe by which its pixels can be made again."""
    pixels: PixelDigest | None = Field(default=None, exclude_if=lambda pixels: pixels is None)
    """SHA-256 of the pixels that were answered; null where none says or they differ."""
    predictions: dict[str, Scored]
    """Predictions for the image, by classifier."""
    problem: str | None = Field(default=None, exclude_if=lambda problem: problem is None)
    """Why a classifier has no prediction for it, or null if all have."""


class Provenance(ResponseBody):
    """Which weights produced an item, and at what cost."""

    models: dict[str, str] = {}
    """Id and revision of the weights that answered, by service or classifier."""
    cost: Cost = Cost()
    """Cost of the item. A call that served several items is counted once, on the first that has a result, so
    that sums over items are exact."""
    service_seconds: dict[str, float] = {}
    """Seconds spent in each service, counted once like `cost`."""


class ItemResult(Provenance):
    """What an item of a stress test produced: an image with its provenance, scores and predictions."""

    image: BlobRef
    """SHA-256 of the image that was made."""
    caption: str
    """Caption of the source image."""
    edited_caption: str | None = None
    """Caption that the image should match, or null if the caption was not edited."""
    removed: list[WordSpan] = []
    """Words removed from the caption, with their places in it."""
    added: list[WordSpan] = []
    """Words added to the caption, with their places in the edited caption."""
    strength: float | None = None
    """Chosen strength of the edit, or null if there was no sweep. For prompt-to-prompt it is the fraction of
    the steps during which self-attention was replaced."""
    strengths_tried: list[float] = []
    """Strengths that were made before the choice, in the preset's order."""
    scores: EditScores | None = None
    """CLIP's metrics of the edit, or null if there was nothing to score."""
    sweep: list[SweepScores] = []
    """Scores of all strengths that were made, from which one was chosen; empty if there was one."""
    text: TextScores | None = None
    """What the text filters measured of the edit, or null if they did not judge it."""
    suite_fit: SuiteFit | None = None
    """Whether the source image lies outside what the suite knows; recorded on the reconstruction only, for a
    suite that was calibrated."""
    predictions: dict[str, Scored] = {}
    """Predictions for the image, by classifier."""
    original_predictions: dict[str, Scored] = {}
    """Predictions for the source image, by classifier."""
    unanswered: dict[str, str] = {}
    """Why a classifier has no prediction for the image or its source, by classifier; the others' predictions
    count without it."""
    psnr_db: float | None = None
    """Peak signal-to-noise ratio of a reconstruction against its source image in dB; null for other items."""
    image_features: FeatureVector | None = None
    """CLIP features of the image; recorded for kept images if the scorer returned them."""
    source_features: FeatureVector | None = None
    """CLIP features of the source image; recorded on the reconstruction only."""
    word_features: WordFeatures | None = None
    """CLIP features of the removed and added words, or null if they were not recorded."""
    likelihood: TextLikelihood | None = None
    """Likelihood of the edited caption, or of the caption where it was not edited, under the language model
    that `models` names; null if it was not recorded."""
    preset: EditorPreset | None = None
    """The editor's settings for this item, or null if they were not recorded."""
    served: ServedImage | None = Field(default=None, exclude_if=lambda served: served is None)
    """How a server of others made the image; absent where none did."""
    region: ConfinedEdit | None = Field(default=None, exclude_if=lambda region: region is None)
    """Where the edit was to change the image; absent where it could everywhere."""
    preservation: Preservation | None = Field(default=None, exclude_if=lambda record: record is None)
    """What changed beside what was asked for; absent where that was not measured."""
    judgements: dict[str, Judgement] = Field(default={}, exclude_if=lambda judgements: not judgements)
    """What each of the run's judges says of the edit; absent where CLIP alone judged it."""
    left_out: dict[str, str] = Field(default={}, exclude_if=lambda left_out: not left_out)
    """Why an operation was not carried out on the image, by its name."""
    segment: Segment | None = Field(default=None, exclude_if=lambda segment: segment is None)
    """Where the suite's segmenter sees the object, which is used unless the image came with a mask; absent
    where none was asked."""
    transformed: list[TransformedImage] = Field(
        default=[],
        # Items of captions are recorded as they were without this field.
        exclude_if=lambda images: not images,
    )
    """What operations made of the source image, the control and the placebo first; empty for other items."""


Result = TypeVar("Result", bound=Provenance)


class RunItem(ResponseBody, Generic[Result]):
    """One unit of work of a run, which ends in exactly one recorded outcome."""

    id: str
    """Id of the item, unique on this gateway."""
    ordinal: int
    """Place of the item in the plan, from 0."""
    # Another version may have items of further kinds, which are shown as they are.
    kind: SkipValidation[ItemKind]
    """What the item makes."""
    item_group: str
    """Group of items that one worker leases together: in a stress test, the id of the source image."""
    source_image: BlobRef
    """SHA-256 of the image that the item starts from, or of an example of its class if it does not start from
    an image."""
    label: str
    """Class of the image."""
    labels: list[str] | None = Field(default=None, exclude_if=lambda labels: labels is None)
    """Further labels of the image; absent if it has none."""
    edit_type: EditType | None = None
    """Factor that the edit changes, or null for items other than edits."""
    slot: int = 0
    """Index of the item among those of its kind for the same image or class, from 0."""
    stage: int = Field(default=1, ge=1)
    """The stage of the run that planned this item."""
    state: ItemState
    """State of the item."""
    reason: str | None = None
    """Why a filter dropped the item, or null if none did."""
    code: str | None = None
    """Error code of a failed item, or null if it did not fail."""
    detail: str | None = None
    """What happened to a dropped or failed item, or null."""
    attempts: int = 0
    """Number of times a worker has tried the item."""
    result: Result | None = None
    """What the item produced, or null if it has no result."""


class Item(RunItem[ItemResult]):
    """One unit of work of a stress test."""

    instruction: Instruction | None = None
    """What the confirmation asks of the item. Of the screen, its mask alone where the run has a region, else
    null."""


AnyItem = TypeVar("AnyItem", bound=RunItem[Any])


class PageOfItems(ResponseBody, Generic[AnyItem]):
    """A page of items in planned order."""

    items: list[AnyItem]
    """The items of this page."""
    after: str | None = None
    """Opaque cursor of the next page, or null on the last page."""


class RunEvent(ResponseBody):
    """One progress event of the event stream."""

    id: int
    """Number of the event; later events have larger numbers."""
    run_id: str
    """Id of the run."""
    state: RunState
    """State of the run after the event."""
    request_counts: RequestCounts
    """Number of items in each state after the event."""
    message: str = ""
    """What happened, in one sentence; empty if there is nothing to add."""
