"""Forks of the sweep between two calls: an edit at a smaller value goes on where a larger one left it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from faultline_core.blobs import BlobStore
from faultline_core.contract.editor import EditItem, EditorPreset
from faultline_core.editing.sweep import Fork
from faultline_services.editor.caches.tensor_cache import TensorCache

CACHE_KIND = "sweep-fork"
CACHE_FORMAT = 1
"""Raised when the path of an edit of equal inputs comes out differently than before."""


class ForkCache:
    """The forks of each edit, a few latents, in the blob store under a key of all the edit's inputs."""

    def __init__(
        self, store: BlobStore, *, model: dict[str, object], precision: str, device: torch.device
    ) -> None:
        self._cache = TensorCache(store, CACHE_KIND, CACHE_FORMAT, model, precision)
        self._device = device

    def find(self, item: EditItem, preset: EditorPreset) -> list[Fork]:
        """Return the forks an earlier call came through; none where they are gone: the edit starts over."""
        tensors = self._cache.find(item=item, preset=preset)
        if tensors is None:
            return []
        steps, latents = tensors["steps"].tolist(), tensors["latents"].to(self._device)
        heats: Sequence[Tensor | None] = [None] * len(steps)
        if "heats" in tensors:
            heats = list(tensors["heats"].to(self._device))
        earlier: Sequence[Tensor | None] = [None] * len(steps)
        if "earlier" in tensors:
            earlier = list(tensors["earlier"].to(self._device))
        return [Fork(*row) for row in zip(steps, latents, heats, earlier, strict=True)]

    def keep(
        self, item: EditItem, preset: EditorPreset, known: Sequence[Fork], noted: Sequence[Fork]
    ) -> None:
        """Add forks to those of an edit; without a new one nothing is written.

        Args:
            item: the edit.
            preset: its settings.
            known: what ``find`` returned for it.
            noted: those that it came through since.
        """
        forks = {fork.step: fork for fork in (*noted, *known)}
        if len(forks) == len(known):
            return
        rows = list(forks.values())
        tensors = {
            "steps": torch.tensor([fork.step for fork in rows]),
            "latents": torch.stack([fork.latents for fork in rows]),
        }
        heats = [fork.heats for fork in rows if fork.heats is not None]
        if heats:
            tensors["heats"] = torch.stack(heats)
        earlier = [fork.earlier for fork in rows if fork.earlier is not None]
        if earlier:
            tensors["earlier"] = torch.stack(earlier)
        self._cache.keep(tensors, item=item, preset=preset)
