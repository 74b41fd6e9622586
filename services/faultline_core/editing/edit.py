"""Edits of inverted images (images x edits x sweep values), with shared denoiser calls at each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from faultline_core.editing.branches import Branches, EditSettings, EditTask, SourceRows
from faultline_core.editing.denoiser import Cancellation, Denoiser, finite_rows, never
from faultline_core.editing.driver.driver import Driver
from faultline_core.editing.driver.evaluation import Walk
from faultline_core.editing.inversion.inversion import Inverted
from faultline_core.editing.noise_schedule import Timetable
from faultline_core.editing.sweep import Fork
from faultline_core.types import Cost

__all__ = ["EditSettings", "EditTask", "Edited", "edit", "edit_walk"]


@dataclass(frozen=True)
class Edited:
    """Clean latents (tasks, sweep, C, H, W), whether each task is finite, its cost and its forks.

    A source row counts for the first task of its call that needs it, so the evaluations of all tasks add
    up to the evaluations made; calls are those a task took part in.
    """

    latents: Tensor
    finite: Tensor
    costs: list[Cost]
    forks: list[list[Fork]]


def edit_walk(table: Timetable, inverted: Inverted, text: Tensor, branches: Branches) -> Walk[Tensor]:
    """Take branches through the steps beside images inverted before, under their captions (B, L, D).

    The source branch is read off the inversion, evaluated once an image and step for its attention, and
    not at all once nothing is carried over.
    """
    for index in range(branches.first_step, table.steps):
        branches.part(index, inverted.trajectory[:, 0])
        cond = branches.conditional(index, SourceRows(inverted.trajectory[:, index], text))
        answers = yield [*cond, *branches.unconditional(index, inverted.uncond_at(index))]
        asked = len(cond)
        branches.advance(index, answers[:asked], answers[asked:], inverted.trajectory[:, index + 1])
    return branches.collect()


def edit(
    denoiser: Denoiser,
    table: Timetable,
    inverted: Inverted,
    text: Tensor,
    tasks: Sequence[EditTask],
    settings: EditSettings,
    *,
    cancelled: Cancellation = never,
) -> Edited:
    """Edit inverted images, whose captions are ``text`` (B, L, D), once for each task and sweep value.

    Sweep values share one path until the first of them lets go.

    Raises:
        AttentionNotHooked: the denoiser has no attention that could be controlled.
        Cancelled: the caller asked to stop.
    """
    driver, owners = Driver(denoiser, batch=settings.batch, cancelled=cancelled), range(len(tasks))
    branches = Branches(table, tasks, settings, owners)
    latents = driver.run(edit_walk(table, inverted, text, branches))
    return Edited(latents, finite_rows(latents), [driver.cost(owner) for owner in owners], branches.forks)
