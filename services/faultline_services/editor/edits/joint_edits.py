"""Edits made on the way of the null-text inversion of their images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from faultline_core.contract.editor import EditItem, EditRequest
from faultline_core.editing.edit import null_text_edit
from faultline_services.batching.batch_size import BatchSizer
from faultline_services.editor.caches.inversions import CaptionedImage, captioned
from faultline_services.editor.call import EngineCall
from faultline_services.editor.edits.inversion_batch import InvertedBatch, InvertedImage
from faultline_services.editor.edits.results import ItemLatents
from faultline_services.editor.edits.settings import (
    edit_settings,
    edit_tasks,
    null_text_settings,
    preset_timetable,
)

KIND = "invert jointly"
"""The kind of work by which its batch size is known."""


@dataclass(frozen=True)
class JointNullTextEdits:
    """Inverts images by null-text and edits them in one walk.

    That saves an evaluation an image and step: an image that was inverted before is evaluated once more for
    its attention.
    """

    call: EngineCall
    request: EditRequest
    items: Mapping[int, EditItem]

    @property
    def sizer(self) -> BatchSizer:
        """The batch size of this kind of work."""
        return self.call.sizers.of(KIND)

    def __call__(self, images: Sequence[CaptionedImage], latents: Tensor, text: Tensor) -> InvertedBatch:
        """Invert images, of latents (B, C, h, w) under captions (B, L, D), and make all edits of them.

        Returns:
            The inversions, and the edits that are finite. What another edit took is on its image's account:
            it is tried again from the inversion, which may come out better in float32.
        """
        pipeline, preset = self.call.pipeline, self.request.preset
        table = preset_timetable(pipeline.schedule, preset)
        chosen = {index: item for index, item in self.items.items() if captioned(item) in images}
        joint = null_text_edit(
            self.call.denoiser,
            table,
            latents,
            text,
            pipeline.null,
            null_text_settings(preset),
            edit_tasks(pipeline, list(chosen.values()), images, preset),
            edit_settings(self.request, table, preset.guidance, batch=self.sizer.size),
            cancelled=self.call.cancelled,
        )
        costs, edited, edits = list(joint.costs), joint.edited, dict[int, ItemLatents]()
        for row, (index, finite) in enumerate(zip(chosen, edited.finite.tolist(), strict=True)):
            if finite:
                edits[index] = ItemLatents(edited.latents[row], edited.costs[row], edited.forks[row])
            else:
                costs[images.index(captioned(chosen[index]))] += edited.costs[row]
        inverted = [InvertedImage(joint.inverted.select(row), cost) for row, cost in enumerate(costs)]
        return InvertedBatch(inverted, edits)
