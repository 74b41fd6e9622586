"""Inversions of images, made in batches and remembered in the store by everything they depend on."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from faultline_core.blobs import BlobStore
from faultline_core.contract.editor import EditItem, EditorPreset, ReconstructItem
from faultline_core.editing.inversion.inversion import Inverted
from faultline_core.types import BlobRef
from faultline_services.editor.caches.tensor_cache import TensorCache, Tensors

CACHE_KIND = "inversion"
CACHE_FORMAT = 1
"""Raised when an inversion of equal inputs comes out differently than before."""


@dataclass(frozen=True)
class CaptionedImage:
    """An image by its digest, and the caption under which it is inverted."""

    image: BlobRef
    caption: str


def captioned(item: ReconstructItem | EditItem) -> CaptionedImage:
    """Return the image and caption that an item is about."""
    return CaptionedImage(item.image, item.caption)


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


class InversionCache:
    """Inversions in the blob store, as safetensors bytes under a key of all their inputs."""

    def __init__(
        self, store: BlobStore, *, model: dict[str, object], precision: str, device: torch.device
    ) -> None:
        self._cache = TensorCache(store, CACHE_KIND, CACHE_FORMAT, model, precision)
        self._device = device

    def find(self, image: CaptionedImage, preset: EditorPreset) -> Inverted | None:
        """Return an earlier inversion of equal inputs; None where it is gone or damaged."""
        tensors = self._cache.find(**_inputs(image, preset))
        return None if tensors is None else self._placed(tensors)

    def _placed(self, tensors: Tensors) -> Inverted:
        return Inverted(
            tensors["trajectory"].to(self._device),
            tensors["uncond"].to(self._device),
            tensors["inner_iterations"],
        )

    def keep(self, image: CaptionedImage, preset: EditorPreset, inverted: Inverted) -> None:
        """Remember the inversion of one image."""
        tensors = {
            "trajectory": inverted.trajectory,
            "uncond": inverted.uncond,
            "inner_iterations": inverted.inner_iterations,
        }
        self._cache.keep(tensors, **_inputs(image, preset))


def _inputs(image: CaptionedImage, preset: EditorPreset) -> dict[str, object]:
    return {"image": image.image, "caption": image.caption, "preset": inversion_part(preset)}
