"""Bodies of ``/v1/shift-benchmarks``: classifiers on every shift of a dataset interface."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from faultline_core.contract.base import RequestBody, ResponseBody
from faultline_core.contract.classifiers import ClassifierDescription
from faultline_core.contract.dataset_interfaces import ClassName
from faultline_core.contract.editor import GenerationPreset
from faultline_core.contract.runs import PredictionPair, Provenance, RunItem
from faultline_core.types import BlobRef, ClassifierSpec, Name, Scheduler, Seed

CATALOGUE = "catalogue"
"""As ``shifts``: the 23 shifts of the paper's Table 1."""


GenerationSource = Literal["token", "class-name"]
"""What stands for the class in a prompt: its learned token, or its plain name."""

BenchmarkSource = Literal["token", "class-name", "retrieval", "scraped", "photographs"]
"""Where pictures of a class under a shift come from (Dataset Interfaces, sections 3 and 4).

Generated from tokens or names; the CLIP nearest neighbours of the prompt in a folder; a scraped folder's
first ``n`` of a class; or the user's own photographs of each condition.
"""

PictureSource = Literal["token", "class-name", "retrieval", "scraped", "photographs", "real"]
"""A source, or ``real``: the dataset's own pictures, which the thresholds and controls come from."""

ShiftText = Annotated[str, Field(min_length=1, max_length=300)]
"""A shift's name in the catalogue, words such as "in the snow", or a whole prompt with ``<class>`` in it."""

ConditionName = Annotated[str, Field(min_length=1, max_length=300)]
"""``base``, or the name of a shift of the benchmark."""


class ShiftBenchmarkCreate(RequestBody):
    """``POST /v1/shift-benchmarks``: an interface, shifts, classifiers, pictures of each class and shift.

    ``n`` pictures of each class and shift are made from seeds that all shifts share, and as many without
    a shift; ``sources`` with ``class-name`` makes them from the plain names beside. ``class_shifts`` are
    further shifts of single classes ("sleeping"). ``base`` is the prompt without a shift, with ``<class>`` in
    it, where "a photo of a <class>" leaves unsaid what the dataset's pictures agree on. ``steps``,
    ``guidance`` and ``scheduler`` are those of the suite unless given. Without ``classes`` it is about all of
    the interface's, which must have ended then; where ``token`` is a source, about those that have a token.

    ``real`` pictures a class of the interface's dataset, or of the dataset ``validation`` where pictures
    were kept back, set the object thresholds and are the controls.

    ``retrieval`` names the dataset that nearest neighbours are taken from. ``scraped`` and ``photographs``
    name a dataset for ``base`` and each shift that there are pictures of, labelled with the classes; the
    first ``n`` of a class count.
    """

    interface: Name
    shifts: list[ShiftText] | Literal["catalogue"] = "catalogue"
    classes: list[ClassName] | None = Field(default=None, min_length=1, max_length=10_000)
    classifiers: list[ClassifierSpec] = Field(min_length=1, max_length=128)
    base: ShiftText | None = None
    class_shifts: dict[ClassName, list[ShiftText]] = {}
    sources: list[BenchmarkSource] = Field(default=["token"], min_length=1, max_length=5)
    retrieval: Name | None = None
    scraped: dict[ConditionName, Name] = {}
    photographs: dict[ConditionName, Name] = {}
    n: int = Field(default=8, ge=1, le=1000)
    real: int = Field(default=50, ge=0, le=10_000)
    validation: Name | None = None
    steps: int | None = Field(default=None, ge=1, le=100)
    guidance: float | None = Field(default=None, ge=1.0, le=30.0)
    scheduler: Scheduler | None = None
    seed: Seed

    @field_validator("classifiers", "sources", "classes")
    @classmethod
    def _distinct(cls, values: list[str] | None) -> list[str] | None:
        if values is not None and len(set(values)) != len(values):
            raise ValueError("values must be distinct")
        return values


ThresholdSource = Literal["person", "suite", "published"]
"""Who set a shift threshold: somebody who looked, the suite for its CLIP, or the paper for its own."""


class BenchmarkShift(ResponseBody):
    """A condition as it is drawn and filtered: prompt with ``<class>``, CLIP caption, family.

    ``photo`` tells whether captions may call its pictures photographs. ``classes`` are those it is asked
    of, None for all. ``threshold`` is the least similarity that the suite or the paper (``threshold_from``)
    has for this caption and CLIP, None where neither has one.
    """

    name: str
    prompt: str
    caption: str
    family: str
    photo: bool = True
    classes: list[str] | None = None
    threshold: float | None = None
    threshold_from: ThresholdSource | None = None

    def applies_to(self, class_name: str) -> bool:
        """Whether pictures of this class are asked for."""
        return self.classes is None or class_name in self.classes


class RetrievalManifest(ResponseBody):
    """What pictures the dataset to retrieve from had when the benchmark was planned.

    ``digest`` is the dataset's, ``pictures`` the blob that lists its pictures, a JSON array of references.
    """

    digest: str
    pictures: BlobRef
    count: int = Field(ge=1)


class ShiftBenchmarkConfig(ResponseBody):
    """All that a benchmark depends on; ``shifts`` begin with the base.

    ``tokens`` are the interface's; a class without one is made from its name alone. ``missing`` names the
    interface's classes that are left out because they have none. ``labels`` are all classes of the dataset,
    among which classifiers choose. ``retrieval`` is there where pictures are retrieved. ``zoo`` is what the
    classifiers service tells of those asked. ``clip`` names the CLIP by which similarities are measured:
    thresholds hold for it alone.
    """

    request: ShiftBenchmarkCreate
    suite: str
    dataset: str
    dataset_digest: str
    generation: GenerationPreset
    models: dict[str, str]
    versions: dict[str, str]
    classes: list[str]
    labels: list[str]
    shifts: list[BenchmarkShift]
    tokens: dict[str, BlobRef | None]
    missing: list[str] = []
    retrieval: RetrievalManifest | None = None
    zoo: dict[str, ClassifierDescription] = {}
    clip: str
    objectionable: float | None = None


class PictureResult(Provenance):
    """A picture of a class under a shift: where it is from, CLIP's cosines and the classifiers' answers.

    Generated ones have ``seed`` and ``token`` (None: by name), found ones the ``prompt`` that found them.
    ``unsearched`` is the blob that lists which pictures of the folder the search had to leave out, a JSON
    object from reference to reason; None where it left out nothing.
    ``object_similarity`` is the cosine with "a photo of a <class>", of a style with "a <class>", which real
    pictures have as ``plain_similarity`` too; ``shift_similarity`` is that with the shift's caption.
    Nothing is filtered here: thresholds are applied to what is recorded.
    """

    image: BlobRef
    source: PictureSource
    shift: str
    prompt: str | None = None
    seed: int | None = None
    token: BlobRef | None = None
    unsearched: BlobRef | None = None
    object_similarity: float
    plain_similarity: float | None = None
    shift_similarity: float | None = None
    predictions: dict[str, PredictionPair] = {}


class PictureItem(RunItem[PictureResult]):
    """One picture of a shift benchmark."""
