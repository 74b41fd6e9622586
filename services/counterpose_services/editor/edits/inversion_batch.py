"""A batch of inversions by a preset's method, and the retry in float32 of those that are not finite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.editing.branches import Branches
from counterpose_core.editing.denoiser import finite_rows
from counterpose_core.editing.driver.evaluation import Owner, Walk
from counterpose_core.editing.inversion.inversion import Inverted
from counterpose_core.editing.inversion.null_text import null_text_walk
from counterpose_core.editing.inversion.tuning_free import (
    direct_walk,
    negative_prompt_walk,
    virtual_inversion,
)
from counterpose_core.editing.noise_schedule import Timetable
from counterpose_core.types import Cost
from counterpose_services.editor.caches import CaptionedImage
from counterpose_services.editor.call import EngineCall
from counterpose_services.editor.edits.conditions import null_texts
from counterpose_services.editor.edits.results import ItemLatents
from counterpose_services.editor.edits.settings import image_noise, null_text_settings, preset_timetable
from counterpose_services.editor.step_engine.mode import OWN_MODE, Mode

HALF_PRECISIONS = ("float16", "bfloat16")


@dataclass(frozen=True)
class InvertedImage:
    """The inversion of one image, a batch of one that may not be finite, and its cost."""

    inverted: Inverted
    cost: Cost

    @property
    def finite(self) -> bool:
        """Whether the inversion is free of NaN and infinity."""
        return bool(self.inverted.finite)


@dataclass(frozen=True)
class InvertedBatch:
    """The images of a batch, in order, and the edits made during the inversion, by item."""

    images: list[InvertedImage]
    edits: Mapping[int, ItemLatents] = field(default_factory=dict)


def invert_batch(
    call: EngineCall,
    preset: PromptToPromptPreset,
    images: Sequence[CaptionedImage],
    latents: Tensor,
    text: Tensor,
    mode: Mode = OWN_MODE,
) -> InvertedBatch:
    """Invert images by the preset's method; each is charged for its denoiser calls.

    Args:
        call: the current call.
        preset: the method and its settings.
        images: the B images; their digests seed the noise of virtual inversion.
        latents: their encoded pixels (B, C, h, w).
        text: their encoded captions (B, L, D).
        mode: how the network computes.
    """
    pipeline, null = call.pipeline, null_texts(call, images)
    table = preset_timetable(pipeline.schedule, preset)
    if preset.inversion == "virtual":
        noise = image_noise(preset, [image.image for image in images], pipeline.latent_shape)
        inverted = virtual_inversion(table, latents, null, noise.to(latents))
        return _split(inverted, [Cost()] * len(images))
    runner, owners = call.runner(mode), range(len(images))
    inverted = runner.run(_walk(table, preset, latents, text, null, owners))
    return _split(inverted, [runner.cost(owner) for owner in owners])


def _split(inverted: Inverted, costs: Sequence[Cost]) -> InvertedBatch:
    return InvertedBatch([InvertedImage(inverted.select(row), cost) for row, cost in enumerate(costs)])


def _walk(
    table: Timetable,
    preset: PromptToPromptPreset,
    latents: Tensor,
    text: Tensor,
    null: Tensor,
    owners: Sequence[Owner],
) -> Walk[Inverted]:
    if preset.inversion == "direct":
        return direct_walk(table, latents, text, null, owners)
    if preset.inversion == "negative-prompt":
        return negative_prompt_walk(table, latents, text, owners)
    settings = null_text_settings(preset)
    return null_text_walk(table, latents, text, null, settings, owners, Branches.none(table))


def retry_in_float32(
    call: EngineCall,
    preset: PromptToPromptPreset,
    batch: InvertedBatch,
    images: Sequence[CaptionedImage],
    latents: Tensor,
    text: Tensor,
) -> InvertedBatch:
    """Repeat the inversions whose embedding is not finite in half precision, with weights in float32.

    Args:
        call: the current call.
        preset: the method and its settings.
        batch: the inversions of all B images.
        images: the B images.
        latents: their encoded pixels (B, C, h, w).
        text: their encoded captions (B, L, D).

    Returns:
        The batch with the new inversions, finite or not; their costs include both attempts.
    """
    rows = [row for row, image in enumerate(batch.images) if _lost(call, preset, image.inverted)]
    if not rows:
        return batch
    chosen = [images[row] for row in rows]
    again = invert_batch(call, preset, chosen, latents[rows], text[rows], Mode(float32=True))
    found = list(batch.images)
    for row, image in zip(rows, again.images, strict=True):
        cost = batch.images[row].cost + image.cost + Cost(float32_retries=1)
        found[row] = replace(image, cost=cost)
    return replace(batch, images=found)


def _lost(call: EngineCall, preset: PromptToPromptPreset, inverted: Inverted) -> bool:
    """Return True if an embedding is not finite in the UNet's precision but may be in float32."""
    if preset.inversion != "null-text" or call.pipeline.denoiser.precision not in HALF_PRECISIONS:
        return False
    # The path to noise needs no gradient; if it is not finite, no edit in this precision will be either.
    reached = finite_rows(inverted.trajectory[:, :1])
    return bool(reached & ~inverted.finite)
