"""Edits of images that were inverted before: all items of a call in one walk, in denoiser calls that fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from faultline_core.contract.editor import EditItem, EditRequest
from faultline_core.editing.edit import Edited, edit
from faultline_core.editing.inversion.inversion import Inverted
from faultline_core.editing.sweep import Fork, latest_fork
from faultline_services.editor.caches.forks import ForkCache
from faultline_services.editor.caches.inversions import CaptionedImage, captioned
from faultline_services.editor.call import EngineCall
from faultline_services.editor.edits.results import ItemLatents
from faultline_services.editor.edits.settings import edit_settings, edit_tasks, preset_timetable


def edit_items(
    call: EngineCall,
    request: EditRequest,
    items: Mapping[int, EditItem],
    inverted: Mapping[CaptionedImage, Inverted],
    cache: ForkCache,
) -> tuple[dict[int, ItemLatents], list[int]]:
    """Edit each item at every value of the sweep that is asked for.

    Args:
        call: the call under way.
        request: the preset and the values of the sweep.
        items: the edits by their places in the request.
        inverted: the inversion of each of their images.
        cache: has forks of earlier calls, from which an edit goes on, and is given new ones.

    Returns:
        The edits, finite or not, and the items of which not even one sample fits into memory.
    """

    def work(indices: Sequence[int], batch: int) -> dict[int, ItemLatents]:
        chosen = {index: items[index] for index in indices}
        known = {index: cache.find(item, request.preset) for index, item in chosen.items()}
        edited = _edit(call, request, chosen, inverted, known, batch)
        for row, (index, item) in enumerate(chosen.items()):
            if bool(edited.finite[row]):
                cache.keep(item, request.preset, known[index], edited.forks[row])
        return {
            index: ItemLatents(edited.latents[row], edited.costs[row]) for row, index in enumerate(chosen)
        }

    targets = len(items) * len(request.values)
    done = call.sizers.of("edit").run_at_once(list(items), targets, work)
    return {index: item for part in done.results for index, item in part.items()}, done.too_large


def _edit(
    call: EngineCall,
    request: EditRequest,
    items: Mapping[int, EditItem],
    inverted: Mapping[CaptionedImage, Inverted],
    known: Mapping[int, Sequence[Fork]],
    batch: int,
) -> Edited:
    pipeline, preset = call.pipeline, request.preset
    table = preset_timetable(pipeline.schedule, preset)
    # All edits of an image read one trajectory; it is neither inverted nor stacked twice.
    images = list(dict.fromkeys(captioned(item) for item in items.values()))
    starts = [latest_fork(known[index], table, request.values, preset.injection_end) for index in items]
    tasks = edit_tasks(pipeline, list(items.values()), images, preset)
    with pipeline.denoiser.guided(preset.guidance) as guidance:
        return edit(
            call.denoiser,
            table,
            Inverted.concatenate([inverted[image] for image in images]),
            pipeline.prompts.encode([image.caption for image in images]),
            [replace(task, start=start) for task, start in zip(tasks, starts, strict=True)],
            edit_settings(request, table, guidance, batch=batch),
            cancelled=call.cancelled,
        )
