"""Inversions of pictures, made in batches and remembered in the store by everything they depend on."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from faultline_core.blobs import BlobStore
from faultline_core.contract.editor import EditorPreset
from faultline_core.editing.denoiser import Cancellation, CountingDenoiser
from faultline_core.editing.direct_inversion import direct_inversion
from faultline_core.editing.inversion import Inverted
from faultline_core.editing.negative_prompt import negative_prompt_inversion
from faultline_core.editing.noise_schedule import Timetable
from faultline_core.editing.null_text import NullTextSettings, null_text_inversion
from faultline_core.types import BlobRef, Cost, Inversion
from faultline_services.editor.tensor_cache import TensorCache, Tensors

CACHE_KIND = "inversion"
CACHE_FORMAT = 1
"""Raised when an inversion of equal inputs comes out differently than before."""

FIXED_PASSES: dict[Inversion, int] = {"direct": 1, "negative-prompt": 2, "null-text": 3}
"""Evaluations a step and picture beside null-text's inner iterations."""


@dataclass(frozen=True)
class Source:
    """A picture by its bytes, and the caption it is inverted under."""

    image: BlobRef
    caption: str


def inversion_part(preset: EditorPreset) -> dict[str, object]:
    """Name the knobs an inversion depends on; presets that differ elsewhere share inversions."""
    # Only null-text looks at the guidance: a sweep over it shares all other inversions.
    part: dict[str, object] = {"inversion": preset.inversion, "steps": preset.steps}
    if preset.spacing is not None:
        part["spacing"] = preset.spacing
    if preset.inversion == "virtual":
        part["seed"] = preset.seed
    if preset.inversion == "null-text":
        part |= {
            "guidance": preset.guidance,
            "inner_steps": preset.inner_steps,
            "inner_learning_rate": preset.inner_learning_rate,
            "inner_tolerance": preset.inner_tolerance,
        }
    return part


def null_text_settings(preset: EditorPreset) -> NullTextSettings:
    """Take the knobs of null-text inversion out of a preset."""
    return NullTextSettings(
        guidance=preset.guidance,
        inner_steps=preset.inner_steps,
        learning_rate=preset.inner_learning_rate,
        tolerance=preset.inner_tolerance,
    )


class InversionCache:
    """Inversions in the blob store, as safetensors bytes under a key of all their inputs."""

    def __init__(
        self, store: BlobStore, *, model: dict[str, object], precision: str, device: torch.device
    ) -> None:
        self._cache = TensorCache(store, CACHE_KIND, CACHE_FORMAT, model, precision)
        self._device = device

    def find(self, source: Source, preset: EditorPreset) -> Inverted | None:
        """Return an earlier inversion of equal inputs, unless it is gone or damaged: then it is made anew."""
        tensors = self._cache.find(**_inputs(source, preset))
        return None if tensors is None else self._placed(tensors)

    def _placed(self, tensors: Tensors) -> Inverted:
        return Inverted(
            tensors["trajectory"].to(self._device),
            tensors["uncond"].to(self._device),
            tensors["inner_iterations"],
        )

    def keep(self, source: Source, preset: EditorPreset, inverted: Inverted) -> None:
        """Remember the inversion of one picture."""
        tensors = {
            "trajectory": inverted.trajectory,
            "uncond": inverted.uncond,
            "inner_iterations": inverted.inner_iterations,
        }
        self._cache.keep(tensors, **_inputs(source, preset))


def _inputs(source: Source, preset: EditorPreset) -> dict[str, object]:
    return {"image": source.image, "caption": source.caption, "preset": inversion_part(preset)}


def invert(
    denoiser: CountingDenoiser,
    table: Timetable,
    preset: EditorPreset,
    latents: Tensor,
    text: Tensor,
    null: Tensor,
    cancelled: Cancellation,
) -> tuple[Inverted, list[Cost]]:
    """Invert one batch by the preset's method; the evaluations of all pictures add up to those made."""
    before = denoiser.cost
    if preset.inversion == "direct":
        inverted = direct_inversion(denoiser, table, latents, text, null, cancelled=cancelled)
    elif preset.inversion == "negative-prompt":
        inverted = negative_prompt_inversion(denoiser, table, latents, text, cancelled=cancelled)
    else:
        settings = null_text_settings(preset)
        inverted = null_text_inversion(denoiser, table, latents, text, null, settings, cancelled=cancelled)
    # Null-text stops early by picture, so its pictures differ in cost though they share every call.
    fixed = FIXED_PASSES[preset.inversion] * table.steps
    after = denoiser.cost
    shared = Cost(
        unet_calls=after.unet_calls - before.unet_calls, host_syncs=after.host_syncs - before.host_syncs
    )
    inner = inverted.inner_iterations.sum(dim=1).tolist()
    own = [Cost(unet_evaluations=fixed + count, unet_backward_evaluations=count) for count in inner]
    return inverted, [shared + cost for cost in own]
