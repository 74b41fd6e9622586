"""Bodies of ``/v1/bug-hunts``: failures that nobody asked about, described in words (Wiles et al., 2022)."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from pydantic import Field

from counterpose_core.contract.base import ClientBody, Distinct, ResponseBody
from counterpose_core.contract.classifiers import FunctionsOfCaller
from counterpose_core.contract.dataset_interfaces import ClassName
from counterpose_core.contract.label_images import LabelImagesConfig, LabelImagesCreate
from counterpose_core.contract.mixtures import Mixture
from counterpose_core.contract.runs import RunItem
from counterpose_core.contract.samples import SampleResult
from counterpose_core.contract.sampling_rules import FixedNumber, SamplingRule
from counterpose_core.contract.shift_benchmarks import ShiftText
from counterpose_core.contract.spending import SpendsWithin
from counterpose_core.types import BlobRef, Name, Seed

HuntPhase = Literal[
    "baseline",
    "clusters",
    "captions",
    "varied",
    "combination",
    "hypothesis",
    "refinement",
    "photographs",
    "held-out",
    "mentions",
    "pilot",
    "mixture",
]
"""What an item of a hunt is for: ``baseline`` samples of a label, ``clusters`` of its failures, ``captions``
of failures and successes, ``varied`` samples of captions that the language model has edited, the
``combination`` of sentences that is likeliest for failures, samples of a ``hypothesis``, those of its shorter
forms (``refinement``), ``photographs`` of the user's, the ``held-out`` samples that a finding is measured on,
captions of those of the label alone (``mentions``), and samples of the prompts of a ``mixture`` and of the
``pilot`` by which these are divided."""

PHOTOGRAPHS_PHASE: HuntPhase = "photographs"
"""The phase in which a hunt makes no image."""

HypothesisSource = Literal["words", "caption", "sentence", "combination", "part", "adjective", "user"]
"""Where a description comes from: words that captions of failures have more often than those of successes,
the whole caption of one failure, one of its sentences, or the ``combination`` of sentences of all failures;
of shorter forms, a ``part`` alone or the whole without an ``adjective``; or the ``user``."""


HuntWords = Literal["frequency", "likelihood", "both"]
"""How captions become descriptions: ``frequency`` takes words that captions of failures have more often than
those of successes, ``likelihood`` the sentences that the captioner finds likeliest for all failures together
(the paper's way)."""


HuntClusters = Literal["none", "predicted", "features"]
"""How failures are clustered before they are described: not at all, by the class that they are taken for, or
by it and then by the likeness of their images (agglomerative, on the cosine of CLIP's features)."""


VARY = 0.75
"""The share with which hunts are validated (docs/evidence/bug-hunts.md)."""


class HuntBudget(ClientBody):
    """How much a hunt may spend."""

    images: int = Field(default=3000, ge=1, le=10_000_000)
    """Most images that the hunt generates, held-out ones too."""
    minutes: float | None = Field(default=None, gt=0.0, le=100_000.0)
    """Minutes by the clock, from the first image on, after which no further image is begun; null for no
    limit. Time for held-out images is kept back."""


class Photographs(ClientBody):
    """Photographs of the user's on which a description is checked, too."""

    described: Name
    """Dataset whose images of the label fit the description."""
    alone: Name
    """Dataset whose images of the label stand for the label alone."""


class BugHuntCreate(SpendsWithin, LabelImagesCreate):
    """``POST /v1/bug-hunts``: find descriptions of a label's images on which classifiers fail."""

    labels: Distinct[list[ClassName]] = Field(min_length=1, max_length=1000)
    """What the images show; classes of all the classifiers."""
    descriptions: Distinct[list[ShiftText]] = Field(default=[], max_length=100)
    """Descriptions of your own, measured on held-out images instead of a search: prompts that name one of the
    labels and no other class."""
    photographs: Photographs | None = None
    """Photographs on which the one description is checked beside generated images, or null."""
    budget: HuntBudget = HuntBudget()
    """How much the hunt may spend."""
    sampling: SamplingRule = Field(default_factory=FixedNumber)
    """When enough images of a prompt are drawn, `fixed` by default; several classifiers share them, so that
    drawing goes on until it is decided for all."""
    hypotheses: int = Field(default=8, ge=1, le=1000)
    """Most descriptions that are measured for each label."""
    winners: int = Field(default=2, ge=1, le=100)
    """Most descriptions of a label to measure again on held-out images."""
    held_out: int = Field(default=96, ge=8, le=10_000)
    """Number of held-out images of each of these descriptions, and of each label's baseline."""
    refine: int | None = Field(default=None, ge=0, le=10_000)
    """Number of images of each shorter form of a winner: each of its parts alone, then the best without each
    of its adjectives. 0 leaves winners as they are; null takes 32, 24 or 16, of a quarter of the budget at
    most, and 0 where that is too little."""
    vary: float = Field(default=VARY, ge=0.0, le=0.9)
    """Share of a label's baseline images that are drawn from edited captions of the others instead: scenes
    that the label alone hardly ever shows; 0 for none, as where the suite has no language model. They propose
    descriptions, and count in no rate."""
    captions: int = Field(default=32, ge=2, le=10_000)
    """Most failures, and as many successes, that are captioned for each label and classifier."""
    mentions: int = Field(default=0, ge=0, le=10_000)
    """Most held-out images of a label alone that are captioned in the end, to tell how often the generator
    draws by itself what a bug says, and which share of all images fails so; 0 for none."""
    mixture: Mixture | None = None
    """Prompts with known shares, on whose mixture the failure rate of each label is measured in the end,
    however rare failures are; null for none."""
    clusters: HuntClusters = "none"
    """How failures are clustered before they are described, each cluster by itself: `none`; `predicted`, by
    the class that they are taken for; `features`, then by their images."""
    words: HuntWords = "frequency"
    """How captions become descriptions: `frequency` compares words of failures and successes; `likelihood`
    combines sentences by the captioner's likelihood, as the paper does; `both`."""
    sentences: int = Field(default=4, ge=1, le=20)
    """Most sentences that `likelihood` combines; phrases, of a captioner of one sentence."""


class DescriptionsCreate(FunctionsOfCaller):
    """``POST /v1/runs/{run_id}/descriptions``: measure descriptions of your own beside the hunt's label.

    ``functions``: classifiers of the hunt that are functions, where the program that served them has ended.
    """

    descriptions: Distinct[list[ShiftText]] = Field(min_length=1, max_length=100)
    """Prompts that name one of the hunt's labels and no other class."""
    photographs: Photographs | None = None
    """Photographs on which the one description is checked beside generated images, or null."""
    images: int | None = Field(default=None, ge=8, le=10_000)
    """Number of images of each description and of the label alone; null for the hunt's number of held-out
    images."""
    seed: Seed | None = None
    """Seed of every random draw; null for one that follows from the hunt's own, another one for each child
    run."""


class HuntShares(ResponseBody):
    """How a label's part of the budget is spent."""

    baseline: int
    """Images of the label alone."""
    hypotheses: int
    """Images of all descriptions together."""
    held_out: int
    """Held-out images of the baseline and of each winner."""
    refinement: int = 0
    """Images of all shorter forms of winners together."""
    refine: int = 0
    """Images of each shorter form of a winner."""
    varied: int = 0
    """Images of edited captions."""
    mixture: int = 0
    """Images of the mixture of prompts, its pilot's included."""


class BugHuntConfig(LabelImagesConfig):
    """Everything a hunt depends on, fixed when its run is created."""

    request: BugHuntCreate
    """The request that created the run."""
    templates: dict[str, str]
    """The baseline prompt of each label with the slot `<class>`; descriptions add words to it."""
    prompts: dict[str, str]
    """The baseline prompt of each label."""
    shares: HuntShares
    """How each label's part of the budget is spent."""
    detectable: float | None
    """Smallest failure rate that the held-out images prove with 80 % probability where the baseline never
    fails, or null if they prove none."""
    findable: float | None = None
    """Smallest failure rate of a label alone of which the baseline shows two failures with 80 % probability;
    rarer ones are hardly found."""
    generator_gap: float | None = None
    """Standard deviation of the log-odds by which failure rates on a user's images differ from those on
    images of the suite's generator; null where it was not measured."""


class HuntInstruction(ResponseBody):
    """What a stage asks of an item."""

    phase: HuntPhase
    """What the item is for."""
    prompt: str | None = None
    """Prompt of the image, or what a caption goes on from; null for a caption that is free."""
    hypothesis: int | None = None
    """Number of the description in the hunt, from 1, or null for none."""
    component: int | None = None
    """Number of the mixture's prompt, from 1, 0 for the label alone; null outside of it."""
    source: HypothesisSource | None = None
    """Where the description comes from, or null for none."""
    words: str = ""
    """The words of the description beside the label."""
    refines: int | None = None
    """Number of the description that this is a shorter form of, or null for none."""
    left_out: str = ""
    """The words that the shorter form leaves out."""
    classifiers: list[str] = []
    """The classifiers whose failures proposed the description."""
    edit: bool = False
    """Whether to edit the caption too, for the prompts of `varied` samples."""
    sample: str | None = None
    """Id of the item whose image is captioned, or null for an image."""
    until: dt.datetime | None = None
    """After this time the image is not begun any more, or null for no limit."""
    images: list[BlobRef] = []
    """The failures that are clustered, or whose sentences are combined."""
    answers: list[str] = []
    """The class that each of the failures to cluster is taken for."""
    reference: list[BlobRef] = []
    """Images that do not fail: clusters are as far apart as two of these usually are."""
    sentences: list[str] = []
    """The sentences of their captions, the most frequent first."""


class Weighed(ResponseBody):
    """A sentence that was added to the caption of a hunt's failures."""

    sentence: str
    """The sentence."""
    log_likelihood: float
    """Log-likelihood of the caption up to it, given the images and the baseline's prompt, in nats a token:
    the mean over images."""
    images: int
    """Number of images."""


class HuntResult(SampleResult):
    """An image of a hunt with every classifier's answer, the caption of one, or what many of them share."""

    clusters: dict[BlobRef, int] = {}
    """The cluster of each failure, from 0, the largest first."""
    combined: list[Weighed] = []
    """The likeliest sentences in the order in which they were added."""

    edited: list[str] = []
    """The caption as the language model edited it, if it was asked to."""

    began_at: dt.datetime | None = None
    """When work on it began, in UTC by the clock of the worker."""
    ended_at: dt.datetime | None = None
    """When it had ended; the hunt's minutes are counted by these times."""


class HuntItem(RunItem[HuntResult]):
    """One image or caption of a bug hunt."""

    instruction: HuntInstruction | None = None
    """What the stage asks of the item; null only in damaged runs."""
