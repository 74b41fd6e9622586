"""Bodies of the editor: reconstruction, prompt-to-prompt edits, text-to-image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import BaseModel, Field, ValidationInfo, field_validator, model_validator

from faultline_core.contract.base import ModelIdentity, Outcome, RequestBody, ResponseBody, Text
from faultline_core.types import BlobRef, Cost, Decoder, Inversion, Scheduler, Seed, Solver, TimestepSpacing

GENERATED_KIND = "generated-picture"
"""Under which the store remembers pictures made of nothing but words and noise, by their own digest."""

Fraction = Annotated[float, Field(ge=0.0, le=1.0)]


class EditorPreset(RequestBody):
    """Every knob of an edit (LANCE, Table 6; reference-implementation values as the ``lance`` preset).

    ``spacing`` says which noise levels the steps visit, by default those of the model's own scheduler. With
    ``virtual`` inversion a picture's noise is drawn, not computed: from ``seed`` and the picture's bytes,
    so that it can be made again alone. With ``preview`` the sweep is chosen from on pictures of the suite's
    small decoder, and what is chosen is decoded in full.
    """

    inversion: Inversion = "direct"
    solver: Solver = "ddim"
    spacing: TimestepSpacing | None = None
    seed: Seed = 0
    steps: int = Field(default=20, ge=1, le=100)
    guidance: float = Field(default=3.0, ge=1.0, le=30.0)
    cross_replace: Fraction = 0.8
    self_replace: tuple[Fraction, ...] = Field(default=(0.4, 0.6, 0.8), min_length=1, max_length=16)
    word_weight: float = Field(default=2.0, ge=0.0, le=10.0)
    local_blend: bool = False
    inner_steps: int = Field(default=10, ge=0, le=100)
    inner_learning_rate: float = Field(default=1e-2, gt=0.0, le=1.0)
    inner_tolerance: float = Field(default=1e-5, ge=0.0)
    preview: bool = False

    @model_validator(mode="after")
    def _beside_the_source(self) -> Self:
        # From noise that was only drawn no other solver would come back to the picture.
        if self.inversion == "virtual" and self.solver != "consistent":
            raise ValueError(f"virtual inversion wants the solver 'consistent', not {self.solver!r}")
        return self


class ReconstructItem(RequestBody):
    """A picture and its caption."""

    image: BlobRef
    caption: Text


class ReconstructRequest(RequestBody):
    """``POST /v1/reconstruct``: what inversion alone does to a picture, the control of every edit."""

    items: list[ReconstructItem] = Field(min_length=1, max_length=16)
    preset: EditorPreset


class Reconstruction(ResponseBody):
    """The reconstructed picture and its error against the picture as the editor saw it."""

    image: BlobRef
    psnr_db: float
    cost: Cost = Cost()


class ReconstructResponse(ResponseBody):
    """One outcome for each picture, in order."""

    outcomes: list[Outcome[Reconstruction]]
    model: ModelIdentity
    cost: Cost = Cost()


class EditItem(RequestBody):
    """A picture, its caption and the edited caption that the new picture shall follow."""

    image: BlobRef
    caption: Text
    edited_caption: Text


class EditRequest(RequestBody):
    """``POST /v1/edit``: one picture for each edit and each value of the self_replace sweep.

    ``self_replace`` names the values of the preset's sweep to make now, all of them by default. Where the
    others part from them is remembered: a later request for these goes on from there, with equal result.
    What ``decoder`` ``preview`` has shown under a preset with ``preview``, a request for the full pictures
    only decodes.
    """

    items: list[EditItem] = Field(min_length=1, max_length=16)
    preset: EditorPreset
    self_replace: tuple[Fraction, ...] | None = Field(default=None, min_length=1, max_length=16)
    decoder: Decoder = "full"

    @field_validator("self_replace")
    @classmethod
    def _of_the_sweep(
        cls, values: tuple[float, ...] | None, info: ValidationInfo
    ) -> tuple[float, ...] | None:
        # A preset that is wrong itself is missing here, and has an error of its own.
        preset = info.data.get("preset")
        if values is not None and preset is not None and not set(values) <= set(preset.self_replace):
            raise ValueError(f"values of the preset's sweep {list(preset.self_replace)} are wanted")
        return values

    @model_validator(mode="after")
    def _previews_are_wanted(self) -> Self:
        # Latents are remembered for presets that will ask for them again, and no others.
        if self.decoder == "preview" and not self.preset.preview:
            raise ValueError("decoder 'preview' wants a preset with preview = true")
        return self

    @property
    def values(self) -> tuple[float, ...]:
        """The values of self_replace to make now."""
        return self.preset.self_replace if self.self_replace is None else self.self_replace


class EditVariant(ResponseBody):
    """The edited picture at one value of self_replace (a fraction of the steps)."""

    self_replace: float
    image: BlobRef


class EditedImage(ResponseBody):
    """All variants of one edit, in the sweep's order, and what they took."""

    variants: list[EditVariant]
    cost: Cost = Cost()


class EditResponse(ResponseBody):
    """One outcome for each edit, in order."""

    outcomes: list[Outcome[EditedImage]]
    model: ModelIdentity
    cost: Cost = Cost()


class GenerationPreset(RequestBody):
    """Text-to-image as a suite does it; the scheduler is the model's own unless one is named."""

    steps: int = Field(default=50, ge=1, le=100)
    guidance: float = Field(default=7.5, ge=1.0, le=30.0)
    scheduler: Scheduler | None = None

    def changed_by(self, body: BaseModel) -> GenerationPreset:
        """Return it with those of its knobs that ``body`` sets."""
        own = body.model_dump(include=set(type(self).model_fields), exclude_none=True)
        return GenerationPreset.model_validate(self.model_dump() | own)

    def request(self, items: Sequence[GenerateItem]) -> GenerateRequest:
        """Return the request for pictures that are made by it."""
        return GenerateRequest(items=list(items), **self.model_dump(exclude_none=True))


class GenerateItem(RequestBody):
    """A prompt and the seed of its starting noise: this picture can be made again alone.

    With a ``token``, the bundle of a learned class, the prompt has its slot ``<class>`` once.
    """

    prompt: Text
    seed: Seed
    token: BlobRef | None = None


class GenerateRequest(RequestBody):
    """``POST /v1/generate``: text-to-image.

    A ``scheduler`` of diffusers samples with the noise levels of the model's own configuration. Without one
    it is DDIM, or the few steps of a model that was distilled.
    """

    items: list[GenerateItem] = Field(min_length=1, max_length=64)
    steps: int = Field(default=50, ge=1, le=100)
    guidance: float = Field(default=7.5, ge=1.0, le=30.0)
    scheduler: Scheduler | None = None


class GeneratedImage(ResponseBody):
    """The picture a prompt and a seed gave."""

    image: BlobRef
    cost: Cost = Cost()


class GenerateResponse(ResponseBody):
    """One outcome for each prompt, in order."""

    outcomes: list[Outcome[GeneratedImage]]
    model: ModelIdentity
    cost: Cost = Cost()
