"""What an adversarial dataset came to: its images, what each filter dropped, and how often captions fail."""

from __future__ import annotations

from typing import Literal

from counterpose_core.contract.adversarial_datasets import AdversarialDatasetConfig
from counterpose_core.contract.base import ResponseBody
from counterpose_core.contract.bug_hunt_summary import LabelBaseline, LabelObject
from counterpose_core.contract.realism import RealismSummary
from counterpose_core.contract.runs import RequestCounts, RunSummary
from counterpose_core.types import BlobRef, Cost, Estimate


class SeedCounts(ResponseBody):
    """What became of the seeds."""

    looked_at: int
    """Images that were looked at, or captions that were given."""
    captioned: int
    """Images that were captioned."""
    dropped: dict[str, int] = {}
    """Seeds that gave no caption, by reason."""


class CaptionYield(ResponseBody):
    """One caption, how often its images fail, and how many are kept."""

    number: int
    """Number of the caption in the run, from 1."""
    label: str
    """What its images show."""
    prompt: str
    """The prompt."""
    seeds: int
    """How many captions of seeds say it."""
    made: int
    """Images that were planned."""
    kept: int
    """Images in the dataset."""
    fooling: Estimate
    """Share of its images that fool the classifiers, with an interval that holds whenever the drawing stops;
    n counts images."""


class ClassifierFailures(ResponseBody):
    """How often one classifier fails on images of the captions."""

    classifier: str
    """Name of the classifier."""
    rate: Estimate
    """Failure rate on the first round of every caption, which no failure has chosen; the interval resamples
    captions, n counts images."""
    baseline: Estimate
    """Failure rate on images of the labels alone; n counts images."""
    kept: int
    """Images of the dataset that fool it."""


class KeptImage(ResponseBody):
    """An image of the dataset."""

    item: str
    """Id of its item."""
    image: BlobRef
    """SHA-256 of the image in the store."""
    label: str
    """What it shows."""
    prompt: str
    """Its prompt."""
    answers: dict[str, str]
    """First answer of each classifier that it fools."""


class AdversarialDatasetSummary(RunSummary):
    """``GET /v1/runs/{id}/summary``."""

    kind: Literal["adversarial-dataset"] = "adversarial-dataset"
    """The kind of the run."""
    run_id: str
    """Id of the run."""
    config: AdversarialDatasetConfig
    """Everything the dataset depends on."""
    request_counts: RequestCounts
    """Number of items in each state."""
    digest: str
    """Digest over the images and labels of the dataset: equal datasets have equal digests."""
    kept: int
    """Images in the dataset."""
    labels: dict[str, int]
    """Images in the dataset, by label."""
    images: int
    """Images that were generated from captions."""
    dropped: dict[str, int]
    """Images of captions that are not in the dataset, by the first filter that dropped them; with `kept` they
    add up to what was planned."""
    seeds: SeedCounts
    """What became of the seeds, and why."""
    captions: list[CaptionYield]
    """The captions, in order."""
    left_out: dict[str, int] = {}
    """Captions that were left out, by reason."""
    classifiers: list[ClassifierFailures]
    """How often each classifier fails."""
    baselines: list[LabelBaseline]
    """How often each label alone fails."""
    objects: dict[str, LabelObject]
    """Below which similarity an image does not show its label, by label."""
    distances: RealismSummary | None = None
    """How far the kept images, the seeds and the images of the labels alone are from the reference in CLIP's
    features; null without a reference."""
    shown: list[KeptImage]
    """Some images of the dataset."""
    failed_codes: dict[str, int] = {}
    """Failed items, by error code."""
    filtered: dict[str, int] = {}
    """Number of filtered items, by reason, such as `policy`."""
    seconds: float
    """Seconds of the services."""
    cost: Cost
    """Cost of the run."""
    verdict: str
    """The dataset in one sentence."""

    def __str__(self) -> str:
        return self.verdict
