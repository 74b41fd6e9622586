"""The editing loop: pictures x edits x sweep values, one denoiser call a step for all that fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from faultline_core.editing.attention_control import CrossEdit, PromptToPrompt
from faultline_core.editing.ddim import guide, predict, step
from faultline_core.editing.denoiser import Cancellation, Denoiser, finite_rows, never, raise_if_cancelled
from faultline_core.editing.inversion import Inverted
from faultline_core.editing.local_blend import START_FRACTION, BlendWords, blend, word_heat
from faultline_core.editing.noise_schedule import Timetable
from faultline_core.editing.sweep import Fork
from faultline_core.errors import AttentionNotHooked
from faultline_core.types import Cost


@dataclass(frozen=True)
class EditTask:
    """One edited caption for one inverted picture: its embedding (L, D) and how attention is carried over.

    With ``start`` it goes on from a fork that an earlier edit at larger values of the sweep has left.
    """

    source: int
    text: Tensor
    cross: CrossEdit
    blend_words: BlendWords | None = None
    start: Fork | None = None


@dataclass(frozen=True, kw_only=True)
class EditSettings:
    """Knobs of all edits of a call; ``self_replace`` is the sweep. ``batch`` bounds the targets of a call.

    ``fork_steps`` are steps before which injected targets are noted, for later edits to go on from.
    """

    guidance: float
    cross_replace: float
    self_replace: tuple[float, ...]
    batch: int = 16
    fork_steps: tuple[int, ...] = ()


@dataclass(frozen=True)
class Edited:
    """Clean latents (tasks, sweep, C, H, W), whether each task is finite, what each took, and its forks.

    A source row counts for the first task of its call that needs it, so the evaluations of all tasks add
    up to the evaluations made; calls are those a task took part in.
    """

    latents: Tensor
    finite: Tensor
    costs: list[Cost]
    forks: list[list[Fork]]


@dataclass(frozen=True)
class _Branch:
    """One target under way, for every sweep value that has not set it apart yet."""

    task: int
    latents: Tensor
    sweep: tuple[int, ...]
    injected: bool = True
    heats: Tensor | None = None


@dataclass
class _Tally:
    """Calls and evaluations of one task."""

    calls: int = 0
    evaluations: int = 0


class _EditLoop:
    def __init__(
        self,
        denoiser: Denoiser,
        table: Timetable,
        inverted: Inverted,
        text: Tensor,
        tasks: Sequence[EditTask],
        settings: EditSettings,
    ) -> None:
        self._denoiser, self._table, self._inverted, self._text = denoiser, table, inverted, text
        self._tasks, self._settings = tasks, settings
        self._cross_steps = table.first(settings.cross_replace)
        self._self_steps = [table.first(fraction) for fraction in settings.self_replace]
        self._tallies = [_Tally() for _ in tasks]
        self._forks: list[list[Fork]] = [[] for _ in tasks]
        self._starts = [task.start.step if task.start is not None else 0 for task in tasks]
        if max(self._starts) > min(self._self_steps):
            raise ValueError(f"a start at step {max(self._starts)} is past the end of an injection")

    def run(self, cancelled: Cancellation) -> Edited:
        branches: list[_Branch] = []
        for index in range(min(self._starts), self._table.steps):
            raise_if_cancelled(cancelled)
            branches += self._starting(index)
            self._note_forks(branches, index)
            # Forked first and cut into calls then, so that no call exceeds the batch the memory was sized
            # for.
            forked = [part for branch in branches for part in self._fork(branch, index)]
            batch = self._settings.batch
            chunks = [forked[start : start + batch] for start in range(0, len(forked), batch)]
            branches = [done for chunk in chunks for done in self._advance(chunk, index)]
        return self._collect(branches)

    def _starting(self, index: int) -> Iterator[_Branch]:
        sweep = tuple(range(len(self._self_steps)))
        for number, (task, first) in enumerate(zip(self._tasks, self._starts, strict=True)):
            if first == index and task.start is not None:
                yield _Branch(number, task.start.latents, sweep, heats=task.start.heats)
            elif first == index:
                yield _Branch(number, self._inverted.trajectory[task.source, 0], sweep)

    def _note_forks(self, branches: Sequence[_Branch], index: int) -> None:
        if index in self._settings.fork_steps:
            for branch in branches:
                if branch.injected:
                    self._forks[branch.task].append(Fork(index, branch.latents, branch.heats))

    def _fork(self, branch: _Branch, index: int) -> Iterator[_Branch]:
        """Part the sweep values whose injection ends here; until then they are one and the same path."""
        # A sweep value is a time at which injection ends: paths are equal, bit for bit, until the first one
        # ends.
        held = tuple(value for value in branch.sweep if self._self_steps[value] > index)
        freed = tuple(value for value in branch.sweep if self._self_steps[value] <= index)
        if held:
            yield replace(branch, sweep=held, injected=True)
        if freed:
            yield replace(branch, sweep=freed, injected=False)

    def _advance(self, branches: Sequence[_Branch], index: int) -> list[_Branch]:
        tasks = [self._tasks[branch.task] for branch in branches]
        # Once nothing is carried over or watched, targets no longer look at sources: their rows are left out.
        controlled = index < self._cross_steps or any(
            branch.injected or task.blend_words is not None
            for branch, task in zip(branches, tasks, strict=True)
        )
        # One source row serves all its edits and sweep values; first come, first charged (`_count`).
        pictures = list(dict.fromkeys(task.source for task in tasks)) if controlled else []
        control = self._control(branches, tasks, pictures, index) if controlled else None
        latents = torch.stack([branch.latents for branch in branches])
        output = self._guided(latents, tasks, pictures, index, control)
        self._count(branches, tasks, pictures)
        moved = step(self._table, index, latents, output)
        parts = [replace(branch, latents=row) for branch, row in zip(branches, moved, strict=True)]
        if control is None or not control.collect:
            return parts
        return self._blended(parts, control, index)

    def _control(
        self, branches: Sequence[_Branch], tasks: Sequence[EditTask], pictures: Sequence[int], index: int
    ) -> PromptToPrompt:
        device = self._inverted.trajectory.device
        row_of = {picture: row for row, picture in enumerate(pictures)}
        cross = CrossEdit.stack([task.cross for task in tasks]) if index < self._cross_steps else None
        return PromptToPrompt(
            source_of=torch.tensor([row_of[task.source] for task in tasks], device=device),
            sources=len(pictures),
            cross=cross,
            injected=torch.tensor([branch.injected for branch in branches], device=device),
            collect=any(task.blend_words is not None for task in tasks),
        )

    def _guided(
        self,
        latents: Tensor,
        tasks: Sequence[EditTask],
        pictures: Sequence[int],
        index: int,
        control: PromptToPrompt | None,
    ) -> Tensor:
        """Evaluate sources (conditional only: their path is known) and both halves of the targets at once."""
        owners = [task.source for task in tasks]
        path = self._inverted.trajectory[:, index]
        rows = torch.cat([path[pictures], latents, latents])
        edited = torch.stack([task.text for task in tasks])
        text = torch.cat([self._text[pictures], self._inverted.uncond_at(index)[owners], edited])
        output = predict(self._denoiser, self._table, index, rows, text, control)
        # A control that was attached to nothing would give a plain, unedited picture without a word, as hooks
        # by class name did when diffusers renamed its attention class: count what was seen.
        if control is not None and 0 in (control.cross_sites, control.self_sites):
            raise AttentionNotHooked(
                f"the control saw {control.cross_sites} cross- and {control.self_sites} self-attention layers"
            )
        uncond, cond = output[len(pictures) :].chunk(2)
        return guide(uncond, cond, self._settings.guidance)

    def _count(self, branches: Sequence[_Branch], tasks: Sequence[EditTask], pictures: Sequence[int]) -> None:
        for task in {branch.task for branch in branches}:
            self._tallies[task].calls += 1
        for branch in branches:
            self._tallies[branch.task].evaluations += 2
        for picture in pictures:
            payer = next(b.task for b, task in zip(branches, tasks, strict=True) if task.source == picture)
            self._tallies[payer].evaluations += 1

    def _blended(self, branches: Sequence[_Branch], control: PromptToPrompt, index: int) -> list[_Branch]:
        source_maps, target_maps = control.word_maps()
        # LANCE's released step callback hands the latents back unchanged, so its local blend never acts.
        start = self._table.first(START_FRACTION)
        result = []
        for row, branch in enumerate(branches):
            task = self._tasks[branch.task]
            if task.blend_words is None:
                result.append(branch)
                continue
            heats = torch.stack(
                [
                    word_heat(source_maps[row], task.blend_words.source),
                    word_heat(target_maps[row], task.blend_words.target),
                ]
            )
            # Summed over the steps so far, as published: single steps look at too little of an object.
            if branch.heats is not None:
                heats = heats + branch.heats
            latents = branch.latents
            if index >= start:
                # Latents have moved one level on by now, so the source is read one level on as well.
                latents = blend(self._inverted.trajectory[task.source, index + 1], latents, heats)
            result.append(replace(branch, latents=latents, heats=heats))
        return result

    def _collect(self, branches: Sequence[_Branch]) -> Edited:
        found = {(branch.task, value): branch.latents for branch in branches for value in branch.sweep}
        sweep = range(len(self._self_steps))
        rows = [torch.stack([found[task, value] for value in sweep]) for task in range(len(self._tasks))]
        latents = torch.stack(rows)
        costs = [Cost(unet_calls=t.calls, unet_evaluations=t.evaluations) for t in self._tallies]
        return Edited(latents, finite_rows(latents), costs, self._forks)


@torch.no_grad()
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
    """Edit inverted pictures, whose captions are ``text`` (B, L, D), once for each task and sweep value.

    The source branch is read off the inversion, evaluated once a picture and step for its attention, and
    not at all once nothing is carried over. Sweep values share one path until the first of them lets go.

    Raises:
        AttentionNotHooked: the denoiser has no attention that could be controlled.
        Cancelled: the caller asked to stop.
    """
    return _EditLoop(denoiser, table, inverted, text, tasks, settings).run(cancelled)
