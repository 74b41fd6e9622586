"""Null-text inversion and the edits of its images in one walk: no source is evaluated twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from faultline_core.editing.branches import Branches, EditSettings, EditTask
from faultline_core.editing.denoiser import Cancellation, Denoiser, finite_rows, never
from faultline_core.editing.driver.driver import Driver
from faultline_core.editing.edit import Edited
from faultline_core.editing.inversion.inversion import Inverted
from faultline_core.editing.inversion.null_text import NullTextSettings, null_text_walk
from faultline_core.editing.noise_schedule import Timetable
from faultline_core.types import Cost


@dataclass(frozen=True)
class InvertedAndEdited:
    """The inversions, what each image took for its own, and the edits, whose costs exclude all sources."""

    inverted: Inverted
    costs: list[Cost]
    edited: Edited


def null_text_edit(
    denoiser: Denoiser,
    table: Timetable,
    clean: Tensor,
    text: Tensor,
    null: Tensor,
    settings: NullTextSettings,
    tasks: Sequence[EditTask],
    edit_settings: EditSettings,
    *,
    cancelled: Cancellation = never,
) -> InvertedAndEdited:
    """Invert (B, C, H, W) given captions (B, L, D) and the empty prompt (L, D), and edit on the way.

    Gives what `null_text_inversion` and then `edit` give, for one evaluation an image and step less
    as long as anything is carried over; edits of images inverted before have to pay it.

    Raises:
        AttentionNotHooked: the denoiser has no attention that could be controlled.
        Cancelled: the caller asked to stop.
    """
    driver = Driver(denoiser, batch=edit_settings.batch, cancelled=cancelled)
    images = [("image", row) for row in range(clean.shape[0])]
    edits = [("edit", row) for row in range(len(tasks))]
    branches = Branches(table, tasks, edit_settings, edits)
    inverted = driver.run(null_text_walk(table, clean, text, null, settings, images, branches))
    latents = branches.collect()
    edited = Edited(latents, finite_rows(latents), [driver.cost(owner) for owner in edits], branches.forks)
    return InvertedAndEdited(inverted, [driver.cost(owner) for owner in images], edited)
