"""Inversions of pictures, made in batches and remembered in the store by everything they depend on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from faultline_core.blobs import BlobStore
from faultline_core.contract.editor import EditorPreset
from faultline_core.editing.branches import Branches
from faultline_core.editing.denoiser import Cancellation, Denoiser
from faultline_core.editing.direct_inversion import direct_walk
from faultline_core.editing.driver import Driver
from faultline_core.editing.evaluation import Owner, Walk
from faultline_core.editing.inversion import Inverted
from faultline_core.editing.negative_prompt import negative_prompt_walk
from faultline_core.editing.noise_schedule import Timetable
from faultline_core.editing.null_text import NullTextSettings, null_text_walk
from faultline_core.types import BlobRef, Cost, Inversion
from faultline_services.editor.tensor_cache import TensorCache, Tensors

CACHE_KIND = "inversion"
CACHE_FORMAT = 1
"""Raised when an inversion of equal inputs comes out differently than before."""

UNCONDITIONAL: frozenset[Inversion] = frozenset(("negative-prompt", "null-text"))
"""Inversions that find embeddings for the unconditional half of guidance."""


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
    denoiser: Denoiser,
    table: Timetable,
    preset: EditorPreset,
    latents: Tensor,
    text: Tensor,
    null: Tensor,
    cancelled: Cancellation,
) -> tuple[Inverted, list[Cost]]:
    """Invert one batch by the preset's method; a picture pays for the calls it took part in."""
    driver, owners = Driver(denoiser, cancelled=cancelled), range(latents.shape[0])
    inverted = driver.run(_walk(table, preset, latents, text, null, owners))
    return inverted, [driver.cost(owner) for owner in owners]


def _walk(
    table: Timetable,
    preset: EditorPreset,
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
