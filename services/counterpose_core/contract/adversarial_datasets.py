"""Bodies of ``/v1/adversarial-datasets``: images that classifiers get wrong (Wiles et al., s. 4.2)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from counterpose_core.contract.base import ClientBody, ResponseBody, Text, told_apart_by
from counterpose_core.contract.dataset_interfaces import ClassName
from counterpose_core.contract.features import FeatureVector
from counterpose_core.contract.label_images import LabelImagesConfig, LabelImagesCreate
from counterpose_core.contract.runs import RunItem
from counterpose_core.contract.samples import SampleResult
from counterpose_core.contract.spending import SpendsWithin
from counterpose_core.types import Cosine, PortableName

AdversarialPhase = Literal["seed", "baseline", "sample", "reference"]
"""What an item is for: the caption of a ``seed``, ``baseline`` images of a label alone, a ``sample`` of a
caption, and the features of a ``reference`` image."""

FoolingRule = Literal["any", "all"]
"""Whether an image is kept that fools any one of the classifiers, or only one that fools all of them."""


class _Seeds(ClientBody):
    model_config = ConfigDict(json_schema_extra=told_apart_by("kind"))


class DatasetSeeds(_Seeds):
    """Captions of a dataset's images, by default of those that a classifier gets wrong."""

    kind: Literal["dataset"] = "dataset"
    """Where the captions come from."""
    dataset: str = Field(min_length=1, max_length=96)
    """Name of the dataset."""
    images: int = Field(default=200, ge=1, le=100_000)
    """Most of its images that are looked at."""
    mistaken: bool = True
    """Whether only images that fool the classifiers are captioned; false captions all."""


class HuntSeeds(_Seeds):
    """The descriptions of a bug hunt that it measured on held-out images."""

    kind: Literal["bug-hunt"] = "bug-hunt"
    """Where the captions come from."""
    run: str = Field(min_length=1, max_length=64)
    """Id of the ended hunt."""


class GivenCaption(ClientBody):
    """A caption of the caller's own."""

    label: ClassName
    """What its images show; a class of all the classifiers."""
    text: Text
    """The caption, which names the label."""


class GivenSeeds(_Seeds):
    """Captions of the caller's own."""

    kind: Literal["captions"] = "captions"
    """Where the captions come from."""
    captions: list[GivenCaption] = Field(min_length=1, max_length=10_000)
    """The captions."""


Seeds = Annotated[DatasetSeeds | HuntSeeds | GivenSeeds, Field(discriminator="kind")]


class AdversarialDatasetCreate(SpendsWithin, LabelImagesCreate):
    """``POST /v1/adversarial-datasets``: generate images of captions, keep those that fool classifiers."""

    seeds: Seeds
    """Where the captions come from."""
    fools: FoolingRule = "any"
    """Whether an image has to fool any one of the classifiers, or all."""
    captions: int = Field(default=50, ge=1, le=10_000)
    """Most captions that are generated from."""
    sentences: int = Field(default=2, ge=1, le=20)
    """How many first sentences of a caption are used."""
    samples: int = Field(default=64, ge=1, le=100_000)
    """Most images of each caption; the paper's are 1,000."""
    most_kept: int = Field(default=10, ge=1, le=100_000)
    """Most images of a caption that the dataset keeps."""
    images: int = Field(default=3000, ge=1, le=10_000_000)
    """Most images that are generated, baseline included."""
    baseline: int = Field(default=64, ge=8, le=10_000)
    """Images of each label alone, to compare with and to know what shows the label."""
    near_duplicates: Cosine | None = 0.99
    """CLIP's cosine from which an image repeats one that is kept and is left out; null keeps repetitions."""
    reference: str | None = Field(default=None, min_length=1, max_length=96)
    """Name of a dataset of real images, from which the distance of the kept ones is measured; null for
    none."""
    reference_images: int = Field(default=500, ge=20, le=50_000)
    """Most images of the reference dataset that are compared."""


class DatasetRegistration(ClientBody):
    """``POST /v1/runs/{id}/register``: its images as a dataset that other methods take."""

    name: PortableName
    """Name of the dataset, unique among those of your tenant."""


class AdversarialPrompt(ResponseBody):
    """One prompt of the dataset."""

    label: str
    """What its images show."""
    text: str
    """The prompt."""
    seeds: int = 1
    """How many captions of seeds say it."""


class AdversarialDatasetConfig(LabelImagesConfig):
    """Everything that an adversarial dataset depends on, fixed when its run is created."""

    request: AdversarialDatasetCreate
    """The request that created the run."""
    labels: list[str]
    """What the images may show."""
    baselines: dict[str, str]
    """The prompt of each label alone."""
    prompts: list[AdversarialPrompt] = []
    """The prompts, where they are known before a seed is captioned."""
    dropped: dict[str, int] = {}
    """Captions that were left out when the run was created, by reason."""


class AdversarialInstruction(ResponseBody):
    """What a stage asks of an item."""

    phase: AdversarialPhase
    """What the item is for."""
    prompt: str | None = None
    """Prompt of the image, or null for a real image."""
    caption: int | None = None
    """Number of the caption in the run, from 1, or null for none."""
    seeds: int = 0
    """How many captions of seeds say the prompt."""


class AdversarialResult(SampleResult):
    """A seed with its caption, a generated image with every answer, or a reference image."""

    features: FeatureVector | None = None
    """CLIP features of a seed, a reference image, an image that fools a classifier, or one of a label alone
    where there is a reference; null for others."""


class AdversarialItem(RunItem[AdversarialResult]):
    """One seed, generated image or reference image of an adversarial dataset."""

    instruction: AdversarialInstruction | None = None
    """What the stage asks of the item; null only in damaged runs."""
