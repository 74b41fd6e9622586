"""The edits of a request as the core reads them, and those made on the way of an inversion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from faultline_core.contract.editor import EditItem, EditorPreset, EditRequest, ReconstructItem
from faultline_core.editing.attention_control import cross_edit
from faultline_core.editing.denoiser import Cancellation, Denoiser
from faultline_core.editing.edit import EditSettings, EditTask
from faultline_core.editing.inversion import Inverted
from faultline_core.editing.local_blend import BlendWords
from faultline_core.editing.noise_schedule import Timetable
from faultline_core.editing.null_text_edit import null_text_edit
from faultline_core.editing.prompt_alignment import align
from faultline_core.editing.sweep import Fork, fork_steps
from faultline_core.types import Cost
from faultline_services.editor.inversions import Source, null_text_settings
from faultline_services.editor.pipeline import Pipeline
from faultline_services.editor.sampling import SOLVERS, preset_timetable


def source_of(item: ReconstructItem | EditItem) -> Source:
    """Return the picture and caption that an item is about."""
    return Source(item.image, item.caption)


def edit_settings(request: EditRequest, table: Timetable, guidance: float, *, batch: int) -> EditSettings:
    """Take the knobs of a request's edits out of its preset, ``guidance`` being what is left of its own."""
    preset = request.preset
    return EditSettings(
        guidance=guidance,
        cross_replace=preset.cross_replace,
        self_replace=request.values,
        batch=batch,
        fork_steps=fork_steps(table, set(preset.self_replace) - set(request.values)),
        solver=SOLVERS[preset.solver],
    )


def edit_tasks(
    pipeline: Pipeline, items: Sequence[EditItem], sources: Sequence[Source], preset: EditorPreset
) -> list[EditTask]:
    """Encode edited captions and align them with those of ``sources``."""
    prompts = pipeline.prompts
    texts = prompts.encode([item.edited_caption for item in items]) if items else ()
    tasks = []
    for item, text in zip(items, texts, strict=True):
        aligned = align(prompts.tokenize(item.caption), prompts.tokenize(item.edited_caption))
        cross = cross_edit(aligned, prompts.length, word_weight=preset.word_weight).to(text)
        words = BlendWords.of(aligned, prompts.length) if preset.local_blend else None
        tasks.append(EditTask(sources.index(source_of(item)), text, cross, words))
    return tasks


@dataclass(frozen=True)
class MadeOnTheWay:
    """What an item came to while its source was inverted: latents (values, C, h, w), forks, their cost."""

    latents: Tensor
    forks: list[Fork]
    cost: Cost


class EditsOnTheWay:
    """Edits of sources that have no inversion yet, made in one walk with their null-text inversion.

    That saves an evaluation a picture and step; a source that was inverted before is evaluated for its
    attention once more. ``made`` holds the items that came to something finite.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        denoiser: Denoiser,
        request: EditRequest,
        items: Mapping[int, EditItem],
        cancelled: Cancellation,
    ) -> None:
        self._pipeline, self._denoiser, self._cancelled = pipeline, denoiser, cancelled
        self._request, self._items = request, items
        self.made: dict[int, MadeOnTheWay] = {}

    def invert(
        self, sources: Sequence[Source], latents: Tensor, text: Tensor, batch: int
    ) -> tuple[Inverted, list[Cost]]:
        """Invert latents (B, C, h, w) under captions (B, L, D), and edit them.

        Returns:
            The inversions, and what each took: an edit that is not finite is on its source's account.
        """
        preset, pipeline = self._request.preset, self._pipeline
        table = preset_timetable(pipeline.schedule, preset)
        chosen = {index: item for index, item in self._items.items() if source_of(item) in sources}
        found = null_text_edit(
            self._denoiser,
            table,
            latents,
            text,
            pipeline.null,
            null_text_settings(preset),
            edit_tasks(pipeline, list(chosen.values()), sources, preset),
            edit_settings(self._request, table, preset.guidance, batch=batch),
            cancelled=self._cancelled,
        )
        costs = list(found.costs)
        finite = found.edited.finite.tolist()
        for row, (index, item) in enumerate(chosen.items()):
            cost, forks = found.edited.costs[row], found.edited.forks[row]
            if finite[row]:
                self.made[index] = MadeOnTheWay(found.edited.latents[row], forks, cost)
            else:
                # It is tried again from the inversion, which may come out better in float32.
                costs[sources.index(source_of(item))] += cost
        return found.inverted, costs
