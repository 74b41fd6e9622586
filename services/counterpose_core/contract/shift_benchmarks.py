"""Bodies of ``/v1/shift-benchmarks``: classifiers on every shift of a dataset interface."""

from typing import Annotated, Literal

from pydantic import Field
from pydantic.config import JsonDict

from counterpose_core.contract.base import DISTINCT, Distinct, ResponseBody
from counterpose_core.contract.classifiers import ClassifierDescription, ClassifiersUnderTest
from counterpose_core.contract.dataset_interfaces import ClassName
from counterpose_core.contract.editor import (
    GenerationPreset,
    GuidanceOverride,
    SchedulerOverride,
    StepsOverride,
)
from counterpose_core.contract.runs import Provenance, RunItem
from counterpose_core.contract.scored import Scored
from counterpose_core.contract.served_images import ServedImage
from counterpose_core.contract.spending import SpendsWithin
from counterpose_core.contract.tasks import ModelsOfTask
from counterpose_core.types import BlobRef, ClassifierSpec, Name, Seed

CATALOGUE = "catalogue"
"""The value of ``shifts`` for the 23 shifts of the paper's Table 1."""

ImageSource = Literal["token", "class-name", "retrieval", "scraped", "photographs"]
"""Where images of a class under a shift come from (Dataset Interfaces, sections 3 and 4).

They are generated from tokens or names, are the nearest neighbours of the prompt by CLIP in a dataset, the
first ``n`` of a class in a scraped dataset, or the user's own photographs of each condition.
"""

ImageSourceOrReal = Literal["token", "class-name", "retrieval", "scraped", "photographs", "real"]
"""An image source, or ``real``: the dataset's own images, which set the thresholds and serve as controls."""

ShiftText = Annotated[str, Field(min_length=1, max_length=300)]
"""A shift's name in the catalogue, words such as "in the snow", or a whole prompt with ``<class>``."""

ConditionName = Annotated[str, Field(min_length=1, max_length=300)]
"""``base``, or the name of a shift of the benchmark."""


_REAL_IMAGES_OF_A_DATASET: JsonDict = {
    "if": {"properties": {"validation": {"type": "string"}}, "required": ["validation"]},
    "then": {"properties": {"real": {"minimum": 1}}},
}
"""A dataset of real images is named only where some are used."""


class ShiftBenchmarkCreate(
    SpendsWithin, ModelsOfTask, ClassifiersUnderTest, json_schema_extra=_REAL_IMAGES_OF_A_DATASET
):
    """``POST /v1/shift-benchmarks``: classifiers on images of each class of an interface under each shift."""

    interface: Name
    """Run id of the dataset interface."""
    shifts: list[ShiftText] | Literal["catalogue"] = Field(default="catalogue", json_schema_extra=DISTINCT)
    """The shifts, or `catalogue` for the 23 of the paper's Table 1."""
    classes: Distinct[list[ClassName] | None] = Field(default=None, min_length=1, max_length=10_000)
    """Classes to benchmark, or null for all classes of the interface, whose run must then have ended; with
    the image source `token`, for all that have a token."""
    classifiers: Distinct[list[ClassifierSpec]] = Field(min_length=1, max_length=128)
    """The classifiers to benchmark."""
    base: ShiftText | None = None
    """Prompt without a shift, with the slot `<class>`, that describes what all images of the dataset have in
    common; null for "a photo of a <class>"."""
    class_shifts: dict[ClassName, list[ShiftText]] = {}
    """Additional shifts of individual classes, such as "sleeping", by class."""
    image_sources: Distinct[list[ImageSource]] = Field(default=["token"], min_length=1, max_length=5)
    """Image sources. With both `token` and `class-name`, images generated from learned tokens and from plain
    names are compared."""
    retrieval: Name | None = None
    """Name of the dataset in which `retrieval` searches for nearest neighbours, or null if it is not an image
    source."""
    scraped: dict[ConditionName, Name] = {}
    """Names of datasets with scraped images, by `base` or shift; their labels are the classes, and the first
    `n` images of each class are used."""
    photographs: dict[ConditionName, Name] = {}
    """Names of datasets with the user's photographs, by `base` or shift; their labels are the classes, and
    the first `n` images of each class are used."""
    n: int = Field(default=8, ge=1, le=1000)
    """Number of images of each class under each shift, and without a shift; all shifts use the same seeds."""
    real: int = Field(default=50, ge=0, le=10_000)
    """Maximum number of real images of each class, which set the object thresholds and serve as controls."""
    validation: Name | None = None
    """Name of the dataset with the real images, or null for the interface's own."""
    steps: StepsOverride = None
    guidance: GuidanceOverride = None
    scheduler: SchedulerOverride = None
    seed: Seed
    """Seed of every random draw."""


ThresholdSetter = Literal["person", "suite", "published"]
"""Who set a shift threshold: a person who inspected images, the suite for its CLIP, or the paper."""


class BenchmarkShift(ResponseBody):
    """A condition of a benchmark: how its images are generated and filtered."""

    name: str
    """Name of the condition: `base`, or the shift."""
    prompt: str
    """Prompt to generate from, with the slot `<class>`."""
    caption: str
    """Caption that CLIP compares its images with."""
    family: str
    """Family of the shift, such as weather; `base` for the base and `own` for the user's own."""
    photo: bool = True
    """Whether captions may call its images photographs; false for styles."""
    classes: list[str] | None = None
    """Classes that it applies to, or null for all."""
    threshold: float | None = None
    """Lowest CLIP cosine with the caption that passes, as set by the suite or the paper; null if neither sets
    one."""
    threshold_from: ThresholdSetter | None = None
    """Who set that threshold, or null if there is none."""

    def applies_to(self, class_name: str) -> bool:
        """Return True if images of this class are planned."""
        return self.classes is None or class_name in self.classes


class RetrievalManifest(ResponseBody):
    """The images that the benchmark retrieves from, as they were when it was planned."""

    digest: str
    """Digest of the dataset."""
    images: BlobRef
    """SHA-256 of the stored JSON array that lists its images."""
    count: int = Field(ge=1)
    """Number of images."""


class ShiftBenchmarkConfig(ResponseBody):
    """Everything a benchmark depends on, fixed when its run is created."""

    request: ShiftBenchmarkCreate
    """The request that created the run."""
    suite: str
    """Name of the model suite."""
    dataset: str
    """Name of the interface's dataset."""
    dataset_digest: str
    """Digest of that dataset when the run was created."""
    generation: GenerationPreset
    """How images are generated."""
    models: dict[str, str]
    """Name of each service's model."""
    versions: dict[str, str]
    """Versions of the software that planned the run, by package."""
    classes: list[str]
    """The classes that are benchmarked."""
    labels: list[str]
    """All classes of the dataset, among which the classifiers choose."""
    shifts: list[BenchmarkShift]
    """The conditions, the base first."""
    tokens: dict[str, BlobRef | None]
    """SHA-256 of each class's token bundle, or null for a class that is generated from its name alone."""
    missing: list[str] = []
    """Classes of the interface that were left out because they have no token."""
    retrieval: RetrievalManifest | None = None
    """The images to retrieve from, or null without retrieval."""
    zoo: dict[str, ClassifierDescription] = {}
    """Descriptions of the classifiers, by name."""
    clip: str
    """The CLIP that similarities are measured with; thresholds are valid only for it."""
    objectionable: float | None = None
    """CLIP cosine from which a generated image is dropped as objectionable, or null where nothing is
    checked."""
    policy_words: list[str] = []
    """Words and phrases that the operator's content policy refuses in prompts."""
    groups: dict[BlobRef, str] = {}
    """Group of each image of the named datasets that is not independent, by the image's SHA-256; a group
    counts once."""


class ImageResult(Provenance):
    """An image of a class under a condition, with CLIP's cosines and the predictions.

    Images are not filtered when they are recorded: summaries apply the thresholds.
    """

    image: BlobRef
    """SHA-256 of the image in the store."""
    image_source: ImageSourceOrReal
    """Image source of the image, or `real` for an image of the dataset itself."""
    shift: str
    """Name of the condition that the image shows."""
    prompt: str | None = None
    """Prompt that the image was generated from or found by, or null for the user's own images."""
    seed: int | None = None
    """Seed of its starting noise, or null if it was not generated."""
    token: BlobRef | None = None
    """SHA-256 of the token bundle, or null if it was generated by name or not at all."""
    served: ServedImage | None = Field(default=None, exclude_if=lambda served: served is None)
    """How a server of others made the image; absent where none did."""
    unsearched: BlobRef | None = None
    """SHA-256 of a stored JSON object that gives the reason for each image that the search left out, or null
    if it left out none."""
    alike: BlobRef | None = None
    """SHA-256 of a better result of the same search that is nearly equal to this image by CLIP, or null if
    there is none; both count as one image."""
    object_similarity: float
    """CLIP cosine with "a photo of a <class>", or with "a <class>" under a style."""
    plain_similarity: float | None = None
    """CLIP cosine of a real image with "a <class>", or null for other images."""
    shift_similarity: float | None = None
    """CLIP cosine with the shift's caption, or null without a shift."""
    predictions: dict[str, Scored] = {}
    """Predictions for the image, by classifier."""
    unanswered: dict[str, str] = {}
    """Why a classifier has no prediction for the image, by classifier; the others' predictions count without
    it."""


class ImageItem(RunItem[ImageResult]):
    """One image of a shift benchmark."""
