"""Edits of images, either during their null-text inversion or from earlier inversions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from counterpose_core.contract.editor import EditItem, EditRequest
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.editing.edit import Edited, run_edit, run_null_text_edit
from counterpose_core.editing.inversion.inversion import Inverted
from counterpose_core.editing.sweep import Fork, latest_fork
from counterpose_services.batching.batch_size import BatchSizer, together_or_alone
from counterpose_services.editor.caches import CaptionedImage, ForkCache
from counterpose_services.editor.call import EngineCall
from counterpose_services.editor.edits.conditions import conditioned
from counterpose_services.editor.edits.inversion_batch import InvertedBatch, InvertedImage
from counterpose_services.editor.edits.results import ItemLatents
from counterpose_services.editor.edits.settings import (
    edit_settings,
    edit_tasks,
    null_text_settings,
    preset_timetable,
)

JOINT_KIND = "invert jointly"
"""The kind of work that this batch size belongs to."""


@dataclass(frozen=True)
class JointNullTextEdits:
    """Inverts images by null-text and edits them in one walk.

    That saves one evaluation per image and step: an image that was inverted earlier is evaluated again for
    its attention.
    """

    call: EngineCall
    request: EditRequest
    items: Mapping[int, EditItem]

    @property
    def sizer(self) -> BatchSizer:
        """The batch size of this kind of work."""
        return self.call.sizers.of(JOINT_KIND)

    def __call__(self, images: Sequence[CaptionedImage], latents: Tensor, text: Tensor) -> InvertedBatch:
        """Invert images with latents (B, C, h, w) under captions (B, L, D), and make all edits of them.

        Returns:
            The inversions, and the edits that are finite. The cost of any other edit is added to its image;
            that edit is repeated from the inversion, which may be finite in float32.
        """
        pipeline, preset = self.call.pipeline, PromptToPromptPreset.of(self.request.preset)
        table = preset_timetable(pipeline.schedule, preset)
        chosen = {index: item for index, item in self.items.items() if pipeline.captioned(item) in images}
        joint = run_null_text_edit(
            self.call.runner(),
            table,
            latents,
            text,
            pipeline.null,
            null_text_settings(preset),
            edit_tasks(self.call, list(chosen.values()), images, preset),
            edit_settings(self.request, table, preset.guidance),
        )
        costs, edited, edits = list(joint.costs), joint.edited, dict[int, ItemLatents]()
        for row, (index, finite) in enumerate(zip(chosen, edited.finite.tolist(), strict=True)):
            if finite:
                edits[index] = ItemLatents(edited.latents[row], edited.costs[row], edited.forks[row])
            else:
                costs[images.index(pipeline.captioned(chosen[index]))] += edited.costs[row]
        inverted = [InvertedImage(joint.inverted.select(row), cost) for row, cost in enumerate(costs)]
        return InvertedBatch(inverted, edits)


def edit_items(
    call: EngineCall,
    request: EditRequest,
    items: Mapping[int, EditItem],
    inverted: Mapping[CaptionedImage, Inverted],
    cache: ForkCache,
) -> tuple[dict[int, ItemLatents], list[int]]:
    """Edit each item at every value of the sweep that is asked for.

    Args:
        call: the current call.
        request: the preset and the values of the sweep.
        items: the edits by their positions in the request.
        inverted: the inversion of each of their images.
        cache: has forks of earlier calls, from which an edit continues; new forks are added.

    Returns:
        The edits, finite or not, and the items of which not even one sample fits in memory.
    """

    preset = PromptToPromptPreset.of(request.preset)

    def work(indices: Sequence[int]) -> dict[int, ItemLatents]:
        chosen = {index: items[index] for index in indices}
        known = {index: cache.find(item, preset) for index, item in chosen.items()}
        edited = _edit(call, request, chosen, inverted, known)
        for row, (index, item) in enumerate(chosen.items()):
            if bool(edited.finite[row]):
                cache.keep(item, preset, known[index], edited.forks[row])
        return {
            index: ItemLatents(edited.latents[row], edited.costs[row]) for row, index in enumerate(chosen)
        }

    done = together_or_alone(list(items), work)
    return {index: item for part in done.results for index, item in part.items()}, done.too_large


def _edit(
    call: EngineCall,
    request: EditRequest,
    items: Mapping[int, EditItem],
    inverted: Mapping[CaptionedImage, Inverted],
    known: Mapping[int, Sequence[Fork]],
) -> Edited:
    pipeline, preset = call.pipeline, PromptToPromptPreset.of(request.preset)
    table = preset_timetable(pipeline.schedule, preset)
    # All edits of an image share its trajectory, which is stacked only once.
    images = list(dict.fromkeys(pipeline.captioned(item) for item in items.values()))
    starts = [latest_fork(known[index], table, request.values, preset.injection_end) for index in items]
    tasks = edit_tasks(call, list(items.values()), images, preset)
    mode, guidance = pipeline.denoiser.guided(preset.guidance)
    return run_edit(
        call.runner(mode),
        table,
        Inverted.concatenate([inverted[image] for image in images]),
        conditioned(call, images, pipeline.prompts.encode([image.caption for image in images])),
        [replace(task, start=start) for task, start in zip(tasks, starts, strict=True)],
        edit_settings(request, table, guidance),
    )
