"""Bodies of learning class tokens by textual inversion, and what a token bundle says of itself."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from faultline_core.class_slot import require_slot
from faultline_core.contract.base import (
    MAX_BATCH,
    ModelIdentity,
    Outcome,
    Problem,
    RequestBody,
    ResponseBody,
    Text,
)
from faultline_core.errors import InvalidRequest
from faultline_core.types import BlobRef, Cost, Name, Seed

TOKEN_FORMAT = 1
"""Version of token bundles."""
OWN_PROMPTS = "own"
"""In place of the name of templates: each picture had a prompt of its own."""
MAX_IMAGES = 5000
"""Most pictures of a class in a call: several times ImageNet's."""

ClassName = Annotated[str, Field(min_length=1, max_length=200)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]


class PromptTemplates(RequestBody):
    """Prompts that a token is learned under, each with its slot ``<class>``, and the name they go by."""

    name: Name
    prompts: tuple[Text, ...] = Field(min_length=1, max_length=64)

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
    """Every knob of textual inversion; the defaults are the released code's of Dataset Interfaces.

    ``batch`` pictures a class and step; ``flip`` is the chance that one is mirrored. With ``pin_norm`` the
    ``vectors`` keep the length of the initialiser's, which the paper leaves unsaid. ``shares`` are how far
    from the initialiser to what was learned a token is offered: 1 is all of the way, as published, and 0 the
    initialiser itself. Where there are several, whoever asked chooses.
    """

    steps: int = Field(default=3000, ge=1, le=20_000)
    learning_rate: float = Field(default=5e-4, gt=0.0, le=1.0)
    weight_decay: float = Field(default=1e-2, ge=0.0, le=1.0)
    batch: int = Field(default=1, ge=1, le=64)
    flip: float = Field(default=0.5, ge=0.0, le=1.0)
    pin_norm: bool = True
    vectors: int = Field(default=1, ge=1, le=16)
    shares: tuple[Share, ...] = Field(default=(1.0,), min_length=1, max_length=8)
    templates: PromptTemplates = PromptTemplates(name="photo", prompts=("a photo of a <class>",))

    @field_validator("shares")
    @classmethod
    def _rising(cls, shares: tuple[float, ...]) -> tuple[float, ...]:
        if list(shares) != sorted(set(shares)):
            raise ValueError("shares must rise")
        return shares


class LearnTokenItem(RequestBody):
    """A class, its pictures, and the words its vectors start from: by default the class's name.

    ``prompts``, one a picture, tell what else is to be seen in it, as ``a photo of a <class> in the snow``,
    in place of the preset's templates. ``checkpoint`` is what an earlier link of this learning ended with.
    """

    class_name: ClassName
    images: list[BlobRef] = Field(max_length=MAX_IMAGES)
    prompts: list[Text] | None = None
    initialiser: Text | None = None
    checkpoint: BlobRef | None = None

    @model_validator(mode="after")
    def _one_a_picture(self) -> Self:
        if self.prompts is not None and len(self.prompts) != len(self.images):
            raise ValueError(f"there are {len(self.prompts)} prompts for {len(self.images)} images")
        return self


class LearnTokensRequest(RequestBody):
    """``POST /v1/learn-tokens``: take each class up to ``link_steps`` steps further.

    A token is learned in a chain of calls, the checkpoint of one handed to the next, which comes to the same
    as one long call. Draws hang on ``seed`` and class alone, so a class comes to the same token whatever
    shares the call.
    """

    items: list[LearnTokenItem] = Field(min_length=1, max_length=MAX_BATCH)
    preset: TextualInversionPreset
    link_steps: int = Field(default=100, ge=1, le=20_000)
    seed: Seed

    @model_validator(mode="after")
    def _told_apart(self) -> Self:
        seen: dict[str, str] = {}
        for item in self.items:
            # Draws go by the name: two classes under one would be shown each other's sequence.
            plain = " ".join(item.class_name.casefold().split())
            if plain in seen:
                raise ValueError(f"two classes are named {item.class_name!r} and {seen[plain]!r}")
            seen[plain] = item.class_name
        return self


class DroppedImage(ResponseBody):
    """A picture of a class that could not be read, and why."""

    image: BlobRef
    problem: Problem


class TokenOffer(ResponseBody):
    """A token at a share of the way from its initialiser to what was learned."""

    share: Share
    bundle: BlobRef


class LearnedToken(ResponseBody):
    """Where a class stands after ``steps`` steps; ``bundle`` is there once all steps are taken.

    ``offers`` are there with it, one for each of the preset's shares; ``bundle`` is the last of them.

    ``losses`` are those of this link, one a step; ``images`` counts the pictures that it learns from.
    """

    class_name: str
    steps: int
    checkpoint: BlobRef
    bundle: BlobRef | None = None
    offers: list[TokenOffer] = []
    losses: list[float]
    images: int
    dropped: list[DroppedImage] = []
    cost: Cost = Cost()


class LearnTokensResponse(ResponseBody):
    """One outcome for each class, in order."""

    outcomes: list[Outcome[LearnedToken]]
    model: ModelIdentity
    cost: Cost = Cost()


class TokenDescription(ResponseBody):
    """What a token bundle says of itself; unknown where it was converted from somebody else's file.

    ``width`` is the text encoder's, ``data_digest`` that of the references of the pictures, sorted;
    ``templates`` are ``own`` where each picture had its own prompt. ``share`` is how much of the way from the
    initialiser is left in the vectors.
    """

    format: int = TOKEN_FORMAT
    class_name: ClassName
    initialiser: str
    model: ModelIdentity
    width: int = Field(ge=1)
    vectors: int = Field(ge=1)
    steps: int = Field(ge=0)
    pin_norm: bool
    share: Share = 1.0
    templates: str
    images: int | None = None
    data_digest: str | None = None
    seed: int | None = None
