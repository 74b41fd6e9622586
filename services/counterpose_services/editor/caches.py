"""Caches in the blob store: an image's inversion, the forks of a sweep, and the latents behind previews."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from counterpose_core.blobs import BlobStore, cache_key
from counterpose_core.contract.editor import EditItem, ReconstructItem
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.contract.regions import EditRegion
from counterpose_core.editing.inversion.inversion import Inverted
from counterpose_core.editing.sweep import Fork
from counterpose_core.types import BlobRef

Tensors = dict[str, Tensor]

INVERSION_KIND = "inversion"
INVERSION_FORMAT = 1
"""To be increased when equal inputs give another inversion than before."""
FORK_KIND = "sweep-fork"
FORK_FORMAT = 1
"""To be increased when equal inputs give another path of an edit than before."""
PREVIEW_KIND = "previewed"
PREVIEW_FORMAT = 1
"""To be increased when equal inputs give another edit than before."""


class TensorCache:
    """Caches named tensors as safetensors in the blob store, under a key of all their inputs.

    A cache has one ``kind`` of tensors, for one set of weights at one precision. ``version`` increases when
    equal inputs give other tensors than before.
    """

    def __init__(
        self, store: BlobStore, kind: str, version: int, model: dict[str, object], precision: str
    ) -> None:
        self._store, self._kind = store, kind
        self._inputs: dict[str, object] = {"format": version, "model": model | {"precision": precision}}

    def find(self, **inputs: object) -> Tensors | None:
        """Return the tensors of equal inputs; None if there are none, they were evicted or are damaged."""
        kept = self._store.find(self._kind, self._key(inputs), of=_image_in(inputs))
        try:
            return None if kept is None else load(kept)
        except SafetensorError:
            return None

    def keep(self, tensors: Tensors, **inputs: object) -> None:
        """Keep the tensors of ``inputs``; the store's budget may evict them."""
        stored = {name: tensor.to(torch.device("cpu")).contiguous() for name, tensor in tensors.items()}
        self._store.keep(self._kind, self._key(inputs), save(stored), of=_image_in(inputs))

    def _key(self, inputs: dict[str, object]) -> str:
        return cache_key(**self._inputs, **inputs)


def _image_in(inputs: dict[str, object]) -> str:
    """Return the image of which tensors are made: they go with it."""
    item = inputs.get("item")
    return str(item.image if isinstance(item, EditItem | ReconstructItem) else inputs.get("image", ""))


class DeviceCache:
    """A `TensorCache` of one kind, whose tensors return to the device of the model."""

    kind: ClassVar[str]
    version: ClassVar[int]

    def __init__(
        self, store: BlobStore, *, model: dict[str, object], precision: str, device: torch.device
    ) -> None:
        self._cache = TensorCache(store, self.kind, self.version, model, precision)
        self._device = device


@dataclass(frozen=True)
class CaptionedImage:
    """An image by its digest, and the caption of its inversion.

    ``region`` is what an inpainting checkpoint was told of it; None for everywhere, and with any other.
    """

    image: BlobRef
    caption: str
    region: EditRegion | None = None


def inversion_part(preset: PromptToPromptPreset) -> dict[str, object]:
    """Return the settings that an inversion depends on; presets that differ elsewhere share inversions."""
    # Only null-text depends on the guidance, so a sweep over it shares the other inversions.
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


class InversionCache(DeviceCache):
    """Caches the inversions of captioned images."""

    kind, version = INVERSION_KIND, INVERSION_FORMAT

    def find(self, image: CaptionedImage, preset: PromptToPromptPreset) -> Inverted | None:
        """Return an earlier inversion of equal inputs; None if there is none or it is damaged."""
        tensors = self._cache.find(**_inputs(image, preset))
        return None if tensors is None else self._placed(tensors)

    def _placed(self, tensors: Tensors) -> Inverted:
        return Inverted(
            tensors["trajectory"].to(self._device),
            tensors["uncond"].to(self._device),
            tensors["inner_iterations"],
        )

    def keep(self, image: CaptionedImage, preset: PromptToPromptPreset, inverted: Inverted) -> None:
        """Store the inversion of one image."""
        tensors = {
            "trajectory": inverted.trajectory,
            "uncond": inverted.uncond,
            "inner_iterations": inverted.inner_iterations,
        }
        self._cache.keep(tensors, **_inputs(image, preset))


def _inputs(image: CaptionedImage, preset: PromptToPromptPreset) -> dict[str, object]:
    bounds = {} if image.region is None else {"region": image.region}
    return {"image": image.image, "caption": image.caption, "preset": inversion_part(preset), **bounds}


class ForkCache(DeviceCache):
    """Caches the forks of each edit, from which an edit at a smaller value of the sweep continues."""

    kind, version = FORK_KIND, FORK_FORMAT

    def find(self, item: EditItem, preset: PromptToPromptPreset) -> list[Fork]:
        """Return the forks of an earlier call; without them, the edit starts from the beginning."""
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
        self, item: EditItem, preset: PromptToPromptPreset, known: Sequence[Fork], noted: Sequence[Fork]
    ) -> None:
        """Add forks to those of an edit; nothing is written if none is new.

        Args:
            item: the edit.
            preset: its settings.
            known: the result of ``find`` for it.
            noted: the forks that were passed since.
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


class PreviewedLatents(DeviceCache):
    """Caches the latents behind previews, to be decoded in full if their value is chosen."""

    kind, version = PREVIEW_KIND, PREVIEW_FORMAT

    def find(self, item: EditItem, preset: PromptToPromptPreset, values: Sequence[float]) -> Tensor | None:
        """Return latents (values, C, h, w) if every value was previewed and its latents still exist."""
        if not preset.preview:
            return None
        found = [self._cache.find(item=item, preset=preset, value=value) for value in values]
        if any(tensors is None for tensors in found):
            return None
        return torch.stack([tensors["latents"] for tensors in found if tensors is not None]).to(self._device)

    def keep(
        self, item: EditItem, preset: PromptToPromptPreset, values: Sequence[float], latents: Tensor
    ) -> None:
        """Store the latents of an edit.

        Args:
            item: the edit.
            preset: its settings.
            values: the N values of the sweep that were previewed.
            latents: clean latents (N, C, h, w), one row per value.
        """
        for value, each in zip(values, latents, strict=True):
            self._cache.keep({"latents": each}, item=item, preset=preset, value=value)
