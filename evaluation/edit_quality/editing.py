"""Edits by one preset of a suite in this process: made, scored and chosen from as a stress test does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.editor import (
    EditedImage,
    EditItem,
    EditRequest,
    ReconstructItem,
    ReconstructRequest,
)
from counterpose_core.contract.editor_presets import EditorPreset
from counterpose_core.contract.regions import OF_MASKS, EditRegion
from counterpose_core.editing.denoiser import never
from counterpose_core.errors import InvalidRequest
from counterpose_core.images.codecs import encode_png
from counterpose_core.images.masks import WHITE
from counterpose_core.stress_test.filters import GateReason, choose
from counterpose_core.suite import Suite
from counterpose_core.transforms.arrays import Mask
from counterpose_core.types import BlobRef, Cost, Decoder, Selection
from counterpose_services.editor.backends import Backends
from counterpose_services.scorer.engine import ScorerEngine
from counterpose_services.settings import ServiceSettings

from .scoring import scored


@dataclass(frozen=True)
class Chosen:
    """The variant that was chosen for an edit, and what the gate says of it."""

    strength: float
    image: BlobRef
    direction: float
    failed: GateReason | None


class Editing:
    """An editor's preset, the scorer and the gate around a store of their own: presets share no work.

    Args:
        suite: has the editor, of any backend, and the gate.
        preset: one of the editor's, or a changed copy; one with a region of masks edits within the mask that
            comes with an image, whichever side its region names.
        folder: of the store.
        selection: the rule that chooses from the sweep.
        settings: of the services, such as the hosts of images servers; default: those of the environment.
    """

    def __init__(
        self,
        suite: Suite,
        preset: EditorPreset,
        folder: Path,
        selection: Selection = "paper",
        settings: ServiceSettings | None = None,
    ) -> None:
        own = settings or ServiceSettings.model_validate({"state_dir": folder})
        self.store = BlobStore(str(folder))
        self.preset = preset.confined_to_words() if preset.region == "words" else preset
        self._gate, self._selection = suite.scorer.gate, selection
        self._editor = Backends.load(suite.editor, own, self.store)
        self.scorer = ScorerEngine.load(suite.scorer, own.suite_root, self.store)
        self._spent, self._cost = (0.0, 0.0), Cost()

    def chosen(
        self, png: bytes, captions: Sequence[tuple[str, str]], mask: Mask | None = None
    ) -> tuple[list[Chosen], Mapping[str, float]]:
        """Make edits of one image in one call; return the choices, and an edit's share of the editor's costs.

        Args:
            png: the image.
            captions: of the image and of the edited image, for each edit.
            mask: where the edits of a preset with a region may change the image (H, W).

        Raises:
            InvalidRequest: the preset has a region, and there is no mask.
            CounterposeError: an edit could not be made.
        """
        region = self._region(mask)
        self._spent, self._cost = (0.0, 0.0), Cost()
        image = self.store.put(png)
        items = [
            EditItem(image=image, caption=old, edited_caption=new, region=region) for old, new in captions
        ]
        decoder: Decoder = "preview" if self.preset.previews else "full"
        choices = [
            self._choose(item, edited)
            for item, edited in zip(items, self._edit(items, None, decoder), strict=True)
        ]
        if self.preset.previews:
            choices = [
                self._choose(item, self._edit([item], (one.strength,), "full")[0])
                for item, one in zip(items, choices, strict=True)
            ]
        cpu, wall = self._spent
        return choices, {
            "evaluations": self._cost.unet_evaluations / len(items),
            "calls": self._cost.unet_calls / len(items),
            "gflop": self._cost.flops / 1e9 / len(items),
            "cpu_seconds": cpu / len(items),
            "seconds": wall / len(items),
        }

    def reconstruction_db(self, png: bytes, caption: str) -> float | None:
        """Return the PSNR of an image with nothing changed; None of a backend that does not reconstruct."""
        if not self.preset.capabilities.reconstruct:
            return None
        item = ReconstructItem(image=self.store.put(png), caption=caption)
        request = ReconstructRequest(items=[item], preset=self.preset)
        return self._editor.reconstruct(request, cancelled=never).outcomes[0].unwrap().psnr_db

    def _region(self, mask: Mask | None) -> EditRegion | None:
        if self.preset.region not in OF_MASKS:
            return None
        if mask is None:
            raise InvalidRequest(
                f"the preset edits within {self.preset.region!r}, and what is edited here has no mask; "
                "choose one without a region"
            )
        levels = np.repeat(np.where(mask, WHITE, 0).astype(np.uint8)[..., None], 3, axis=2)
        return EditRegion(mask=self.store.put(encode_png(levels)), edits="inside")

    def _edit(
        self, items: Sequence[EditItem], values: tuple[float, ...] | None, decoder: Decoder
    ) -> list[EditedImage]:
        request = EditRequest(items=list(items), preset=self.preset, strength=values, decoder=decoder)
        cpu, wall = process_time(), perf_counter()
        response = self._editor.edit(request, cancelled=never)
        self._spent = self._spent[0] + process_time() - cpu, self._spent[1] + perf_counter() - wall
        self._cost += response.cost
        return [outcome.unwrap() for outcome in response.outcomes]

    def _choose(self, item: EditItem, edited: EditedImage) -> Chosen:
        scores = scored(self.scorer, item, [variant.image for variant in edited.variants])
        fractions = [variant.strength for variant in edited.variants]
        choice = choose(list(zip(fractions, scores, strict=True)), self._gate, self._selection)
        taken = edited.variants[choice.index]
        return Chosen(taken.strength, taken.image, scores[choice.index].direction, choice.failed)
