"""Bodies of ``/v1/dataset-interfaces``: a dataset's classes learned as tokens (ImageNet*)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from faultline_core.contract.base import MAX_BATCH, ModelIdentity, RequestBody, ResponseBody
from faultline_core.contract.editor import GenerationPreset
from faultline_core.contract.runs import Provenance, RequestCounts, RunItem
from faultline_core.contract.tokens import DroppedImage, TextualInversionPreset
from faultline_core.types import BlobRef, Cost, Estimate, Name, Scheduler, Seed

CLASS_NAME = "class-name"
"""As ``token_init``: each class begins at its own name."""

LearningPrompts = Literal["templates", "captions"]
"""What a picture is shown under: the preset's templates, or its caption with ``<class>`` in it."""

ClassName = Annotated[str, Field(min_length=1, max_length=200)]


class DatasetInterfaceCreate(RequestBody):
    """``POST /v1/dataset-interfaces``: which dataset, which of its classes, how its tokens begin.

    ``token_init`` is ``class-name``, or one word for all classes ("pet", "airplane": Dataset Interfaces,
    appendix D). ``prompts``, ``vectors`` and ``steps`` override the suite's, ``limit`` takes so many
    pictures of each class.
    """

    dataset: Name
    classes: list[ClassName] | None = Field(default=None, min_length=1, max_length=10_000)
    token_init: str = Field(default=CLASS_NAME, min_length=1, max_length=200)
    prompts: LearningPrompts | None = None
    vectors: int | None = Field(default=None, ge=1, le=16)
    steps: int | None = Field(default=None, ge=1, le=20_000)
    limit: int | None = Field(default=None, ge=1, le=100_000)
    seed: Seed

    @field_validator("classes")
    @classmethod
    def _distinct(cls, values: list[str] | None) -> list[str] | None:
        if values is not None and len(set(values)) != len(values):
            raise ValueError("values must be distinct")
        return values


class DatasetInterfaceConfig(ResponseBody):
    """All that an interface depends on, stored with the run and never re-derived.

    ``pictures`` names for each class the blob that lists its pictures, a JSON array of references;
    ``compared`` are pictures of many classes, whose captions tell what is a class's own and what is usual.
    A token is learned by calls of ``link_steps`` steps; ``generation`` is how it is then looked at.
    """

    request: DatasetInterfaceCreate
    suite: str
    preset: TextualInversionPreset
    prompts: LearningPrompts
    models: dict[str, str]
    versions: dict[str, str]
    dataset_digest: str
    classes: list[str]
    pictures: dict[str, BlobRef]
    compared: dict[str, list[BlobRef]] = {}
    without_pictures: list[str] = []
    link_steps: int
    generation: GenerationPreset


class TokenCandidate(ResponseBody):
    """A token at one share of what was learned, by pictures made under the prompts that it was learned under.

    ``resemblance`` is CLIP's cosine of a picture with the mean of the class's own pictures, over pictures.
    """

    share: float
    token: BlobRef
    resemblance: Estimate


class TokenResult(Provenance):
    """What a class came to: its bundle, how the loss fell, and whether pictures of it look like it.

    ``losses`` are means over ``losses_over`` steps each. ``object_similarity`` is CLIP's cosine of pictures
    generated with the token (``pictures``) with "a photo of a <name>", ``name_similarity`` that of pictures
    by the plain name (``name_pictures``), ``real_similarity`` that of the class's own. ``resemblance`` is the
    cosine of the first with the mean of the class's own pictures, ``name_resemblance`` that of the second: a
    class whose name does not bring up what the dataset shows has a lower one there. Each is over pictures.
    A name that the generator cannot read, as a code may be, has no pictures and neither figure.

    ``own_words`` are what captions say of this class more than of others; they were left to the token.
    ``share`` is how much of the way from the initialiser the token went, chosen among ``candidates``: the
    smallest share whose resemblance is as high as the best one's, one standard error aside.
    """

    token: BlobRef
    share: float = 1.0
    candidates: list[TokenCandidate] = []
    initialiser: str
    steps: int
    losses: list[float]
    losses_over: int = 1
    images: int
    dropped_images: list[DroppedImage] = []
    own_words: list[str] = []
    pictures: list[BlobRef] = []
    name_pictures: list[BlobRef] = []
    object_similarity: Estimate | None = None
    name_similarity: Estimate | None = None
    real_similarity: Estimate | None = None
    resemblance: Estimate | None = None
    name_resemblance: Estimate | None = None


class TokenItem(RunItem[TokenResult]):
    """One class of a dataset interface."""


class DatasetInterfaceSummary(ResponseBody):
    """The tokens of an interface by class; of one that was cancelled, those that are finished.

    ``missing`` says of every other class why it has none.
    """

    run_id: str
    dataset: str
    tokens: dict[str, TokenResult]
    missing: dict[str, str]
    counts: RequestCounts
    cost: Cost
    config: DatasetInterfaceConfig


class PicturesCreate(RequestBody):
    """``POST /v1/dataset-interfaces/{id}:generate``: ``n`` pictures of a class, changed like this.

    ``shift`` is words to say after the class ("in the snow"), a name of the catalogue or a whole prompt with
    ``<class>``; without one they are plain. Picture i depends on ``seed``, class and i alone, so that it can
    be made again and stands beside the same i of any other shift. ``by_name`` takes the class's plain name
    in place of its token. ``steps``, ``guidance`` and ``scheduler`` are the suite's unless given.
    """

    class_name: ClassName
    shift: str | None = Field(default=None, min_length=1, max_length=500)
    n: int = Field(default=8, ge=1, le=MAX_BATCH)
    by_name: bool = False
    steps: int | None = Field(default=None, ge=1, le=100)
    guidance: float | None = Field(default=None, ge=1.0, le=30.0)
    scheduler: Scheduler | None = None
    seed: Seed


class Picture(ResponseBody):
    """A generated picture of a class, and all it takes to make it again."""

    image: BlobRef
    class_name: str
    shift: str
    prompt: str
    seed: int
    token: BlobRef | None = None


class Pictures(ResponseBody):
    """Generated pictures in order, the weights that made them, and what they took."""

    pictures: list[Picture]
    model: ModelIdentity
    cost: Cost
