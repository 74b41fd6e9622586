"""Bodies of ``/v1/dataset-interfaces``: a dataset's classes learned as tokens (ImageNet*)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from faultline_core.contract.base import RequestBody, ResponseBody
from faultline_core.contract.runs import Provenance, RunItem
from faultline_core.contract.tokens import TextualInversionPreset
from faultline_core.types import BlobRef, Cost, Estimate, Name, Seed

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
    steps: int | None = Field(default=None, ge=1, le=100_000)
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
    ``compared`` are pictures of all classes, whose captions tell what is a class's own and what is usual.
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


class TokenResult(Provenance):
    """What a class came to: its bundle, how the loss fell, and whether pictures of it look like it.

    ``losses`` are means over equal stretches of the steps. ``object_similarity`` is CLIP's cosine of
    pictures generated with the token and the class's caption (mean over pictures), ``real_similarity``
    that of the class's own pictures, ``name_similarity`` that of pictures of the class's plain name.
    """

    token: BlobRef
    initialiser: str
    steps: int
    losses: list[float]
    images: int
    dropped_images: list[str] = []
    object_similarity: Estimate | None = None
    name_similarity: Estimate | None = None
    real_similarity: Estimate | None = None


class TokenItem(RunItem[TokenResult]):
    """One class of a dataset interface."""


class TokenSummary(ResponseBody):
    """A class of an interface as it stands; without a token, why there is none."""

    class_name: str
    token: BlobRef | None = None
    problem: str | None = None
    steps: int = 0
    losses: list[float] = []
    images: int = 0
    dropped_images: int = 0
    object_similarity: Estimate | None = None
    name_similarity: Estimate | None = None
    real_similarity: Estimate | None = None


class DatasetInterfaceSummary(ResponseBody):
    """The tokens of an interface; of one that was cancelled, those that are finished, and what is missing."""

    run_id: str
    dataset: str
    tokens: dict[str, TokenSummary]
    missing: list[str]
    counts: dict[str, int]
    cost: Cost
    config: DatasetInterfaceConfig
