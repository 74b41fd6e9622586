"""Bodies of learning class tokens by textual inversion, and the description in a token bundle."""

from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from counterpose_core.contract.base import (
    MAX_BATCH,
    CostedBatchResponse,
    ModelIdentity,
    Problem,
    RequestBody,
    ResponseBody,
    Text,
)
from counterpose_core.errors import InvalidRequest
from counterpose_core.text.class_prompts import require_slot
from counterpose_core.types import BlobRef, Cost, Name, Seed

TOKEN_FORMAT = 1
"""Version of the format of token bundles."""
OWN_PROMPTS = "own"
"""Stands for the name of the templates if each image had its own prompt."""
MAX_IMAGES = 5000
"""Maximum number of images of a class in a call: several times ImageNet's."""

ClassName = Annotated[str, Field(min_length=1, max_length=200)]
InterpolationWeight = Annotated[float, Field(ge=0.0, le=1.0)]


class PromptTemplates(RequestBody):
    """Prompts that a token is trained with."""

    name: Name
    """Name of the set of templates."""
    prompts: tuple[Text, ...] = Field(min_length=1, max_length=64)
    """The prompts, each with the slot `<class>` exactly once."""

    @field_validator("prompts")
    @classmethod
    def _with_a_slot(cls, prompts: tuple[str, ...]) -> tuple[str, ...]:
        for prompt in prompts:
            try:
                require_slot(prompt)
            except InvalidRequest as error:
                raise ValueError(error.detail) from error
        return prompts


class TextualInversionPreset(RequestBody):
    """All settings of textual inversion; the defaults are those of Dataset Interfaces' released code."""

    steps: int = Field(default=3000, ge=1, le=20_000)
    """Number of optimisation steps."""
    learning_rate: float = Field(default=5e-4, gt=0.0, le=1.0)
    """Learning rate of AdamW."""
    weight_decay: float = Field(default=1e-2, ge=0.0, le=1.0)
    """Weight decay of AdamW."""
    batch: int = Field(default=1, ge=1, le=64)
    """Number of images per class and step."""
    flip: float = Field(default=0.5, ge=0.0, le=1.0)
    """Probability that an image is mirrored, in [0, 1]."""
    pin_norm: bool = True
    """Whether the vectors keep the length of the initialiser's vectors; the paper does not specify it."""
    vectors: int = Field(default=1, ge=1, le=16)
    """Number of vectors of a token."""
    interpolation_weights: tuple[InterpolationWeight, ...] = Field(default=(1.0,), min_length=1, max_length=8)
    """Fractions of the way from the initialiser to the learned vectors at which tokens are offered, in
    ascending order: 0 is the initialiser, 1 the learned vectors, as published."""
    templates: PromptTemplates = PromptTemplates(name="photo", prompts=("a photo of a <class>",))
    """Prompts for images that have none of their own."""

    @field_validator("interpolation_weights")
    @classmethod
    def _rising(cls, interpolation_weights: tuple[float, ...]) -> tuple[float, ...]:
        if list(interpolation_weights) != sorted(set(interpolation_weights)):
            raise ValueError(f"interpolation_weights must ascend, not be {list(interpolation_weights)}")
        return interpolation_weights


class LearnTokenItem(RequestBody):
    """A class to learn as a token."""

    class_name: ClassName
    """Name of the class."""
    images: list[BlobRef] = Field(max_length=MAX_IMAGES)
    """SHA-256 of each image of the class."""
    prompts: list[Text] | None = None
    """One prompt for each image that says what else it shows, such as `a photo of a <class> in the snow`;
    null to use the preset's templates."""
    initialiser: Text | None = None
    """Words that the vectors start from, or null for the class's name."""
    checkpoint: BlobRef | None = None
    """SHA-256 of the checkpoint that the previous call returned, or null for the first call."""
    published: BlobRef | None = None
    """SHA-256 of a file with a published token, which is taken as it is in place of learning one; null to
    learn."""

    @model_validator(mode="after")
    def _one_per_image(self) -> Self:
        if self.prompts is not None and len(self.prompts) != len(self.images):
            raise ValueError(f"there are {len(self.prompts)} prompts for {len(self.images)} images")
        return self


class LearnTokensRequest(RequestBody):
    """``POST /v1/learn-tokens``: train each class for up to ``link_steps`` more steps.

    Calls form a chain: the checkpoint of one call goes into the next. The result is that of one long call.
    """

    items: list[LearnTokenItem] = Field(min_length=1, max_length=MAX_BATCH)
    """The classes to learn."""
    preset: TextualInversionPreset
    """Settings of textual inversion."""
    link_steps: int = Field(default=100, ge=1, le=20_000)
    """Maximum number of steps in this call."""
    seed: Seed
    """Seed of every random draw; a class's token does not depend on the other classes of the call."""

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        seen: dict[str, str] = {}
        for item in self.items:
            # The random draws depend on the name, so two classes of one name would share their samples.
            plain = " ".join(item.class_name.casefold().split())
            if plain in seen:
                raise ValueError(f"two classes are named {item.class_name!r} and {seen[plain]!r}")
            seen[plain] = item.class_name
        return self


class DroppedImage(ResponseBody):
    """An image of a class that could not be read."""

    image: BlobRef
    """SHA-256 of the image."""
    problem: Problem
    """Why it could not be read."""


class TokenOffer(ResponseBody):
    """A token part of the way from its initialiser to the learned vectors."""

    interpolation_weight: InterpolationWeight
    """Fraction of the way, in [0, 1]."""
    bundle: BlobRef
    """SHA-256 of the token bundle in the store."""


class LearnedToken(ResponseBody):
    """The state of a class after a call."""

    class_name: str
    """Name of the class."""
    steps: int
    """Number of steps so far, over all calls."""
    checkpoint: BlobRef | None = None
    """SHA-256 of the checkpoint to pass to the next call, or null for a published token."""
    bundle: BlobRef | None = None
    """SHA-256 of the token bundle, the last of `offers`; null until all steps are taken."""
    offers: list[TokenOffer] = []
    """One token for each of the preset's interpolation weights; empty until the last step."""
    losses: list[float] = []
    """Loss of each step of this call."""
    images: int = 0
    """Number of images that the class is learned from."""
    dropped: list[DroppedImage] = []
    """Images that could not be read, with the reason."""
    cost: Cost = Cost()
    """Cost of this class in this call."""


class LearnTokensResponse(CostedBatchResponse[LearnedToken]):
    """Answer to `LearnTokensRequest`."""


class TokenDescription(ResponseBody):
    """The description in a token bundle."""

    format: int = TOKEN_FORMAT
    """Version of the bundle's format."""
    class_name: ClassName
    """Name of the class that the token stands for."""
    initialiser: str
    """Words that the vectors started from."""
    model: ModelIdentity
    """The text encoder that the token was learned for."""
    width: int = Field(ge=1)
    """Number of components of each vector, as in the text encoder."""
    vectors: int = Field(ge=1)
    """Number of vectors."""
    steps: int = Field(ge=0)
    """Number of optimisation steps."""
    pin_norm: bool
    """Whether the vectors keep the length of the initialiser's vectors."""
    interpolation_weight: InterpolationWeight = 1.0
    """Fraction of the way from the initialiser to the learned vectors at which the token lies, in [0, 1]."""
    templates: str
    """Name of the templates it was trained with, or `own` if each image had its own prompt."""
    images: int | None = None
    """Number of images it was learned from, or null if the bundle was converted from another format."""
    data_digest: str | None = None
    """Digest over the sorted references of those images, or null if it is unknown."""
    seed: int | None = None
    """Seed that it was learned with, or null if it is unknown."""
