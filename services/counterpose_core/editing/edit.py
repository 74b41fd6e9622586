"""Edits of images x captions x sweep values: after their inversion, or together with null-text inversion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from counterpose_core.editing.branches import Branches, EditSettings, EditTask, SourceRows
from counterpose_core.editing.denoiser import finite_rows
from counterpose_core.editing.driver.evaluation import Owner, T, Walk
from counterpose_core.editing.inversion.inversion import Inverted
from counterpose_core.editing.inversion.null_text import NullTextSettings, null_text_walk
from counterpose_core.editing.noise_schedule import Timetable
from counterpose_core.editing.sweep import Fork
from counterpose_core.types import Cost

__all__ = [
    "EditSettings", "EditTask", "Edited", "InvertedAndEdited", "edit_walk", "run_edit", "run_null_text_edit",
]  # fmt: skip


class Runner(Protocol):
    """Runs walks to their ends for one request, and knows what each owner's evaluations cost."""

    def run(self, walk: Walk[T]) -> T:
        """Run one walk to its end."""

    def cost(self, owner: Owner) -> Cost:
        """Return the cost of an owner's evaluations so far."""


@dataclass(frozen=True)
class Edited:
    """Clean latents (tasks, sweep, C, H, W), whether each task is finite, its cost and its forks.

    A source row counts for the first task of its call that needs it, so the evaluations of all tasks sum to
    the evaluations made. Calls count for every task that took part in them.
    """

    latents: Tensor
    finite: Tensor
    costs: list[Cost]
    forks: list[list[Fork]]


@dataclass(frozen=True)
class InvertedAndEdited:
    """The inversions, the cost of each image, and the edits, whose costs exclude the sources."""

    inverted: Inverted
    costs: list[Cost]
    edited: Edited


def edit_walk(table: Timetable, inverted: Inverted, text: Tensor, branches: Branches) -> Walk[Tensor]:
    """Take branches through the steps, given inverted images and their captions (B, L, D).

    The source branch is read from the inversion. It is evaluated once per image and step for its attention,
    and not at all after the last step that carries attention over.
    """
    for index in range(branches.first_step, table.steps):
        branches.part(index, inverted.trajectory[:, 0])
        cond = branches.conditional(index, SourceRows(inverted.trajectory[:, index], text))
        answers = yield [*cond, *branches.unconditional(index, inverted.uncond_at(index))]
        asked = len(cond)
        branches.advance(index, answers[:asked], answers[asked:], inverted.trajectory[:, index + 1])
    return branches.collect()


def run_edit(
    runner: Runner,
    table: Timetable,
    inverted: Inverted,
    text: Tensor,
    tasks: Sequence[EditTask],
    settings: EditSettings,
) -> Edited:
    """Edit inverted images once for each task and sweep value.

    Sweep values share one path until the first of them ends its injection.

    Args:
        runner: runs the walk; it decides on the batch and on cancellation.
        table: the noise levels.
        inverted: the inversions of the B images.
        text: their encoded captions (B, L, D).
        tasks: the edits; each names its image by its place in the batch.
        settings: the settings that all tasks share.

    Raises:
        AttentionNotHooked: the denoiser has no attention that could be controlled.
        Cancelled: the caller asked to stop.
    """
    owners = range(len(tasks))
    branches = Branches(table, tasks, settings, owners)
    latents = runner.run(edit_walk(table, inverted, text, branches))
    return Edited(latents, finite_rows(latents), [runner.cost(owner) for owner in owners], branches.forks)


def run_null_text_edit(
    runner: Runner,
    table: Timetable,
    clean: Tensor,
    text: Tensor,
    null: Tensor,
    settings: NullTextSettings,
    tasks: Sequence[EditTask],
    edit_settings: EditSettings,
) -> InvertedAndEdited:
    """Invert images by null-text inversion and edit them in the same walk.

    The results equal those of the inversion followed by `run_edit`. While attention is carried over, this
    saves one evaluation per image and step: the inversion's evaluation of the source also serves the edits.

    Args:
        runner: runs the walk; it decides on the batch and on cancellation.
        table: the noise levels.
        clean: clean latents (B, C, H, W).
        text: the encoded captions (B, L, D).
        null: the encoded empty prompt (L, D).
        settings: the settings of the inversion.
        tasks: the edits; each names its image by its place in the batch.
        edit_settings: the settings that all tasks share.

    Raises:
        AttentionNotHooked: the denoiser has no attention that could be controlled.
        Cancelled: the caller asked to stop.
    """
    images = [("image", row) for row in range(clean.shape[0])]
    edits = [("edit", row) for row in range(len(tasks))]
    branches = Branches(table, tasks, edit_settings, edits)
    inverted = runner.run(null_text_walk(table, clean, text, null, settings, images, branches))
    latents = branches.collect()
    edited = Edited(latents, finite_rows(latents), [runner.cost(owner) for owner in edits], branches.forks)
    return InvertedAndEdited(inverted, [runner.cost(owner) for owner in images], edited)
