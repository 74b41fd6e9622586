"""Bodies of the editor: reconstruction, edits, text-to-image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import BaseModel, Field, ValidationInfo, field_validator, model_validator

from counterpose_core.contract.backend_preset import Fraction, Guidance, SamplingSteps
from counterpose_core.contract.base import CostedBatchResponse, RequestBody, ResponseBody, Text
from counterpose_core.contract.editor_presets import EditorPreset
from counterpose_core.contract.regions import ConfinedBy, EditRegion
from counterpose_core.contract.served_images import ServedImage
from counterpose_core.types import BlobRef, Cost, Decoder, Scheduler, Seed

GENERATED_KIND = "generated-image"
"""The cache kind under which the store keeps images generated from text, keyed by their own digest."""

StepsOverride = Annotated[
    int | None, Field(ge=1, le=100, description="Number of sampling steps, or null for the suite's.")
]
GuidanceOverride = Annotated[
    float | None,
    Field(ge=1.0, le=30.0, description="Scale of classifier-free guidance, or null for the suite's."),
]
SchedulerOverride = Annotated[
    Scheduler | None, Field(description="Class name of the diffusers scheduler, or null for the suite's.")
]


class ReconstructItem(RequestBody):
    """An image to make with nothing changed."""

    image: BlobRef
    """SHA-256 of the image in the store."""
    caption: Text
    """Caption of the image."""


class ReconstructRequest(RequestBody):
    """``POST /v1/reconstruct``: make images with nothing changed, as the controls of their edits."""

    items: list[ReconstructItem] = Field(min_length=1, max_length=16)
    """The images to reconstruct."""
    preset: EditorPreset
    """Settings of the editor."""


class Reconstruction(ResponseBody):
    """A reconstructed image."""

    image: BlobRef
    """SHA-256 of the reconstruction in the store."""
    psnr_db: float
    """Peak signal-to-noise ratio against the image as the editor resized it, in dB."""
    cost: Cost = Cost()
    """Cost of this image."""


class ReconstructResponse(CostedBatchResponse[Reconstruction]):
    """Answer to `ReconstructRequest`."""


class EditItem(RequestBody):
    """An image to edit."""

    image: BlobRef
    """SHA-256 of the image in the store."""
    caption: Text
    """Caption of the image."""
    edited_caption: Text
    """Caption that the edited image should match; the same caption for an edit that changes nothing."""
    # Items are hashed: those without a region have the keys of before there was any.
    region: EditRegion | None = Field(default=None, exclude_if=lambda region: region is None)
    """Where the image may change, or null for everywhere; only of an editor that has `mask`."""


class EditRequest(RequestBody):
    """``POST /v1/edit``: one image for each edit and each strength."""

    items: list[EditItem] = Field(min_length=1, max_length=16)
    """The edits to make."""
    preset: EditorPreset
    """Settings of the edits."""
    strength: tuple[Fraction, ...] | None = Field(default=None, min_length=1, max_length=16)
    """Strengths of the preset's sweep to make now, or null for all of them. A later request for the others
    continues from the point where they branch off; the results are the same."""
    decoder: Decoder = "full"
    """`full` uses the model's decoder, `preview` the suite's small one; `preview` requires a preset with
    `preview`. A later request with `full` only decodes."""

    @field_validator("strength")
    @classmethod
    def _of_the_sweep(
        cls, values: tuple[float, ...] | None, info: ValidationInfo
    ) -> tuple[float, ...] | None:
        # An invalid preset is missing here; it has its own error.
        preset = info.data.get("preset")
        if values is not None and preset is not None and not set(values) <= set(preset.sweep):
            raise ValueError(f"{list(values)} must be values of the preset's sweep {list(preset.sweep)}")
        return values

    @model_validator(mode="after")
    def _preset_has_previews(self) -> Self:
        # Latents are kept only for presets whose later requests need them.
        if self.decoder == "preview" and not self.preset.previews:
            raise ValueError("decoder 'preview' requires a preset with preview = true")
        return self

    @property
    def values(self) -> tuple[float, ...]:
        """The strengths to make now."""
        return self.preset.sweep if self.strength is None else self.strength


class ImageSafety(ResponseBody):
    """What the safety checker says of an image."""

    flagged: bool
    """Whether the image is near one of the checker's concepts."""
    score: float
    """Cosine with the nearest concept less its threshold; the image is flagged above 0."""


class EditVariant(ResponseBody):
    """The edited image at one strength of the sweep."""

    strength: float
    """Its strength: for prompt-to-prompt, the fraction of the steps during which self-attention was
    replaced."""
    image: BlobRef
    """SHA-256 of the edited image in the store."""
    safety: ImageSafety | None = None
    """What the safety checker says of it, or null where the editor has none."""
    served: ServedImage | None = Field(default=None, exclude_if=lambda served: served is None)
    """How a server made it; absent where none did."""
    confined_by: ConfinedBy | None = Field(default=None, exclude_if=lambda confined_by: confined_by is None)
    """What kept the rest of the image where the edit had a region; absent where it had none."""
    unchanged: BlobRef | None = Field(default=None, exclude_if=lambda unchanged: unchanged is None)
    """Of an edit with a region, SHA-256 of the image with nothing changed, by the path of the edit; absent
    where that is the source itself."""


class EditedImage(ResponseBody):
    """All images of one edit."""

    variants: list[EditVariant]
    """One image for each value of the sweep, in the sweep's order."""
    cost: Cost = Cost()
    """Cost of this edit."""


class EditResponse(CostedBatchResponse[EditedImage]):
    """Answer to `EditRequest`."""


class GenerationPreset(RequestBody):
    """How a suite generates images from text."""

    steps: SamplingSteps = 50
    guidance: Guidance = 7.5
    scheduler: Scheduler | None = None
    """Class name of the diffusers scheduler, or null for the model's own."""

    def changed_by(self, body: BaseModel) -> GenerationPreset:
        """Return a copy with the settings that ``body`` sets."""
        own = body.model_dump(include=set(type(self).model_fields), exclude_none=True)
        return GenerationPreset.model_validate(self.model_dump() | own)

    def request(self, items: Sequence[GenerateItem]) -> GenerateRequest:
        """Return a request for ``items`` with these settings."""
        return GenerateRequest(items=list(items), **self.model_dump(exclude_none=True))


class GenerateItem(RequestBody):
    """One image to generate; it can be reproduced on its own."""

    prompt: Text
    """Text to generate from; with a `token` it contains the slot `<class>` exactly once."""
    seed: Seed
    """Seed of the starting noise."""
    token: BlobRef | None = None
    """SHA-256 of the token bundle that fills the slot, or null for a plain prompt."""


class GenerateRequest(RequestBody):
    """``POST /v1/generate``: text-to-image."""

    items: list[GenerateItem] = Field(min_length=1, max_length=64)
    """The images to generate."""
    steps: SamplingSteps = 50
    guidance: Guidance = 7.5
    scheduler: Scheduler | None = None
    """Class name of the diffusers scheduler, which uses the noise levels of the model's configuration; null
    for DDIM, or for consistency sampling with a distilled model."""


class GeneratedImage(ResponseBody):
    """A generated image."""

    image: BlobRef
    """SHA-256 of the image in the store."""
    cost: Cost = Cost()
    """Cost of this image."""
    safety: ImageSafety | None = None
    """What the safety checker says of it, or null where the editor has none."""
    served: ServedImage | None = Field(default=None, exclude_if=lambda served: served is None)
    """How a server made it; absent where none did."""


class GenerateResponse(CostedBatchResponse[GeneratedImage]):
    """Answer to `GenerateRequest`."""
