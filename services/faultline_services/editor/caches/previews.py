"""What previews were made of: latents that wait to be decoded in full, should their value be chosen."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from faultline_core.blobs import BlobStore
from faultline_core.contract.editor import EditItem, EditorPreset
from faultline_services.editor.caches.tensor_cache import TensorCache

CACHE_KIND = "previewed"
CACHE_FORMAT = 1
"""Raised when an edit of equal inputs comes out differently than before."""


class PreviewedLatents:
    """The latents of an edit at each value of the sweep, in the blob store under a key of all its inputs."""

    def __init__(
        self, store: BlobStore, *, model: dict[str, object], precision: str, device: torch.device
    ) -> None:
        self._cache = TensorCache(store, CACHE_KIND, CACHE_FORMAT, model, precision)
        self._device = device

    def find(self, item: EditItem, preset: EditorPreset, values: Sequence[float]) -> Tensor | None:
        """Return latents (values, C, h, w) if every value was previewed, and its latents are still there."""
        if not preset.preview:
            return None
        found = [self._cache.find(item=item, preset=preset, value=value) for value in values]
        if any(tensors is None for tensors in found):
            return None
        return torch.stack([tensors["latents"] for tensors in found if tensors is not None]).to(self._device)

    def keep(self, item: EditItem, preset: EditorPreset, values: Sequence[float], latents: Tensor) -> None:
        """Keep the latents of an edit.

        Args:
            item: the edit.
            preset: its settings.
            values: the N values of the sweep that were previewed.
            latents: clean latents (N, C, h, w), one row a value.
        """
        for value, each in zip(values, latents, strict=True):
            self._cache.keep({"latents": each}, item=item, preset=preset, value=value)
