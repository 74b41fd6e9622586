"""Bodies of ``/v1/transfers``: whether images that fool one classifier fool others (Wiles et al., s. 4.2)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from counterpose_core.contract.base import Distinct, ResponseBody
from counterpose_core.contract.classifiers import ClassifiersUnderTest
from counterpose_core.contract.failure_criteria import Criterion
from counterpose_core.contract.runs import RequestCounts, RunItem, RunSummary
from counterpose_core.contract.samples import SampleResult
from counterpose_core.types import BlobRef, ClassifierSpec, Cost, Estimate, Seed

TransferPhase = Literal["fooling", "baseline"]
"""Whether an image was kept because it fools a classifier, or shows its label alone."""


class TransferCreate(ClassifiersUnderTest):
    """``POST /v1/transfers``: show images that fool some classifiers to others."""

    source: str = Field(min_length=1, max_length=64)
    """Id of the ended adversarial dataset or bug hunt whose images are shown."""
    classifiers: Distinct[list[ClassifierSpec]] = Field(min_length=1, max_length=128)
    """The classifiers that the images are shown to, such as a copy that was trained from another seed."""
    criterion: Criterion | None = None
    """When an answer counts as a failure; null for the source's criterion."""
    images: int = Field(default=2000, ge=1, le=1_000_000)
    """Most images of each classifier of the source, and of the labels alone."""
    seed: Seed
    """Seed of every random draw."""


class TransferConfig(ResponseBody):
    """Everything that a transfer depends on, fixed when its run is created."""

    request: TransferCreate
    """The request that created the run."""
    source_kind: str
    """Kind of the run whose images are shown."""
    suite: str
    """Name of the model suite."""
    versions: dict[str, str]
    """Versions of the software that planned the run, by package."""
    rows: list[str]
    """The classifiers that the images fool."""
    labels: list[str]
    """What the images show."""
    classes: list[str]
    """The classes among which the classifiers choose."""
    parents: dict[str, str] = {}
    """The parent of each class."""
    criterion: Criterion
    """When an answer counts as a failure."""
    chosen_by: Criterion
    """The criterion by which the images were chosen."""
    notes: list[str] = []
    """What the transfer cannot show, however it comes out."""


class TransferInstruction(ResponseBody):
    """What an item is for."""

    phase: TransferPhase
    """What the image is."""
    fools: list[str] = []
    """The classifiers of the source that it fools."""
    caption: str = ""
    """Its prompt."""


class TransferItem(RunItem[SampleResult]):
    """One image of a transfer, with every classifier's answer."""

    instruction: TransferInstruction | None = None
    """What the item is for; null only in damaged runs."""


class TransferCell(ResponseBody):
    """How often one classifier fails on the images that fool another."""

    row: str
    """The classifier that the images were chosen to fool."""
    column: str
    """The classifier that they are shown to."""
    failures: int
    """Images on which it fails."""
    rate: Estimate
    """Failure rate with its 95 % interval; n counts images."""
    captions: int
    """Number of different prompts that the images come from."""
    baseline: Estimate
    """Its failure rate on images of the labels alone, with the labels weighing as in the row."""
    by_choice: bool
    """Whether the images were chosen because this classifier fails."""
    p_adjusted: float | None
    """One-sided p of an exact test against the labels alone, label by label, after Holm's correction over all
    cells that are not by choice; null for those, or without images."""


class ShownImage(ResponseBody):
    """An image that fools classifiers, with every answer."""

    item: str
    """Id of its item."""
    image: BlobRef
    """SHA-256 of the image in the store."""
    label: str
    """What it shows."""
    prompt: str
    """Its prompt."""
    fools: list[str]
    """The classifiers that it was chosen to fool."""
    answers: dict[str, str]
    """First answer of each classifier."""


class TransferSummary(RunSummary):
    """``GET /v1/runs/{id}/summary``."""

    kind: Literal["transfer"] = "transfer"
    """Kind of the run."""
    run_id: str
    """Id of the run."""
    config: TransferConfig
    """Everything the transfer depends on."""
    request_counts: RequestCounts
    """Number of items in each state."""
    cells: list[TransferCell]
    """The matrix, row by row."""
    unanswered: dict[str, int] = {}
    """Images that a classifier could not read, by classifier; no failures."""
    shown: list[ShownImage] = []
    """Some of the images."""
    failed_codes: dict[str, int] = {}
    """Failed items, by error code."""
    cost: Cost
    """Cost of the run."""
    verdict: str
    """The transfer in one sentence."""

    def __str__(self) -> str:
        return self.verdict
