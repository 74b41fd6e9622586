"""The branches of a sweep: the targets of edits, split where the injection of one sweep value ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from counterpose_core.editing.attention_control import CrossEdit
from counterpose_core.editing.driver.evaluation import Answer, Carry, Evaluation, Owner
from counterpose_core.editing.local_blend import START_FRACTION, BlendWords, blend, word_heat
from counterpose_core.editing.noise_schedule import Timetable
from counterpose_core.editing.solvers.ddim import guide, sampled
from counterpose_core.editing.solvers.solver import DDIM, Move, Solver
from counterpose_core.editing.sweep import Fork
from counterpose_core.injection_steps import cross_steps
from counterpose_core.types import InjectionEnd


@dataclass(frozen=True)
class EditTask:
    """One edited caption for one inverted image: its embedding (L, D) and its edit of the attention.

    With ``start`` the edit continues from a fork that an earlier edit at larger sweep values recorded.
    ``region`` (H, W) is true where the latents may differ from the image's, None for everywhere.
    """

    source: int
    text: Tensor
    cross: CrossEdit
    blend_words: BlendWords | None = None
    start: Fork | None = None
    region: Tensor | None = None


@dataclass(frozen=True, kw_only=True)
class EditSettings:
    """Settings of all edits of a call.

    ``self_replace`` is the sweep. ``batch`` is the greatest number of targets in a denoiser call.
    ``fork_steps`` are the steps before which injected targets are recorded, so that later edits can continue
    from them. ``injection_end`` says how ``cross_replace`` and ``self_replace`` become numbers of steps.
    At guidance 1 the unconditional half is not evaluated, because it would be multiplied by zero.
    """

    guidance: float
    cross_replace: float
    self_replace: tuple[float, ...]
    batch: int = 16
    fork_steps: tuple[int, ...] = ()
    solver: Solver = field(default_factory=DDIM)
    injection_end: InjectionEnd = "exact"


@dataclass(frozen=True)
class _Branch:
    """One target and the sweep values that still share it."""

    task: int
    latents: Tensor
    sweep: tuple[int, ...]
    injected: bool = True
    heats: Tensor | None = None
    earlier: Tensor | None = None


@dataclass(frozen=True)
class SourceRows:
    """The images at one step: latents (B, C, H, W), captions (B, L, D), and the owners of their rows.

    Without ``owners`` an image is evaluated only where an edit needs it, and the edit is charged.
    """

    latents: Tensor
    text: Tensor
    owners: Sequence[Owner] | None = None


class Branches:
    """All targets of some tasks, from noise to clean latents; ``owners`` has the owner of each task.

    A step calls `part`, then `conditional` and `unconditional` for its evaluations, then `advance` with the
    answers.
    """

    def __init__(
        self, table: Timetable, tasks: Sequence[EditTask], settings: EditSettings, owners: Sequence[Owner]
    ) -> None:
        self._table, self._tasks, self._settings, self._owners = table, tasks, settings, owners
        end = settings.injection_end
        self._cross_steps = cross_steps(settings.cross_replace, table.steps, end)
        self._self_steps = [table.first(fraction, end) for fraction in settings.self_replace]
        self._starts = [task.start.step if task.start is not None else 0 for task in tasks]
        self._branches: list[_Branch] = []
        # Number of targets in each evaluation of the conditional half.
        self._counts: list[int] = []
        # Source latents of the step under way.
        self._source_latents = torch.empty(0)
        self.forks: list[list[Fork]] = [[] for _ in tasks]
        late = max(self._starts, default=0)
        if late > min(self._self_steps, default=0):
            raise ValueError(f"step {late} is after the end of an injection; start the branch earlier")

    @classmethod
    def none(cls, table: Timetable) -> Branches:
        """Return branches without a target, for a walk that makes no edit."""
        return cls(table, (), EditSettings(guidance=1.0, cross_replace=0.0, self_replace=()), ())

    @property
    def first_step(self) -> int:
        """The step before which the first target starts."""
        return min(self._starts, default=0)

    def part(self, index: int, noise: Tensor) -> None:
        """Start targets at ``noise`` (B, C, H, W), and split off values whose injection ends at ``index``."""
        self._branches += self._starting(index, noise)
        if index in self._settings.fork_steps:
            for branch in self._branches:
                if branch.injected:
                    self.forks[branch.task].append(Fork(index, branch.latents, branch.heats, branch.earlier))
        parted = [part for branch in self._branches for part in self._parted(branch, index)]
        # Sorted by image: the targets of one image share one source row.
        self._branches = sorted(parted, key=lambda branch: self._tasks[branch.task].source)

    def _starting(self, index: int, noise: Tensor) -> Iterator[_Branch]:
        sweep = tuple(range(len(self._self_steps)))
        for number, (task, first) in enumerate(zip(self._tasks, self._starts, strict=True)):
            if first == index and task.start is not None:
                start = task.start
                yield _Branch(number, start.latents, sweep, heats=start.heats, earlier=start.earlier)
            elif first == index:
                yield _Branch(number, noise[task.source], sweep)

    def _parted(self, branch: _Branch, index: int) -> Iterator[_Branch]:
        # A sweep value decides when injection ends. Until the first one ends, their paths are bit-identical.
        held = tuple(value for value in branch.sweep if self._self_steps[value] > index)
        freed = tuple(value for value in branch.sweep if self._self_steps[value] <= index)
        if held:
            yield replace(branch, sweep=held, injected=True)
        if freed:
            yield replace(branch, sweep=freed, injected=False)

    def conditional(self, index: int, sources: SourceRows) -> list[Evaluation]:
        """Return the evaluations under the edited captions, one for each image, its source in the first row.

        If sources have owners, every image is evaluated, and the first row is always its source. Otherwise
        only images with targets are, and the source is left out once no attention is carried over.
        """
        images, self._source_latents = self._images(), sources.latents
        chosen = range(len(sources.latents)) if sources.owners is not None else sorted(set(images))
        self._counts = [images.count(image) for image in chosen]
        return [self._conditional(index, image, sources) for image in chosen]

    def _conditional(self, index: int, image: int, sources: SourceRows) -> Evaluation:
        branches = [branch for branch in self._branches if self._tasks[branch.task].source == image]
        carry = self._carry(branches, index)
        one = slice(image, image + 1)
        latents = [branch.latents[None] for branch in branches]
        text = [self._tasks[branch.task].text[None] for branch in branches]
        owners = [self._owners[branch.task] for branch in branches]
        if sources.owners is not None or carry is not None or self._settings.solver.compares:
            latents, text = [sources.latents[one], *latents], [sources.text[one], *text]
            # If edits are charged, the first one is charged for the shared source.
            owners = [sources.owners[image] if sources.owners is not None else owners[0], *owners]
        asked = sampled(self._table, index, torch.cat(latents), torch.cat(text), owners)
        return replace(asked, carry=carry)

    def _carry(self, branches: Sequence[_Branch], index: int) -> Carry | None:
        """Return what is carried over at step ``index``, or None once targets no longer need their source."""
        tasks = [self._tasks[branch.task] for branch in branches]
        crossed = index < self._cross_steps and bool(tasks)
        injected = tuple(branch.injected for branch in branches)
        collect = any(task.blend_words is not None for task in tasks)
        if not crossed and not any(injected) and not collect:
            return None
        cross = CrossEdit.stack([task.cross for task in tasks]) if crossed else None
        return Carry(cross, injected, collect)

    def _images(self) -> list[int]:
        """Return the index of each target's source."""
        return [self._tasks[branch.task].source for branch in self._branches]

    def unconditional(self, index: int, uncond: Tensor) -> list[Evaluation]:
        """Return the evaluations under the images' null embeddings (B, L, D), in the order of the targets.

        If the solver compares targets with their sources, the sources are evaluated too, so that both are
        guided.
        """
        if not self._branches or self._settings.guidance == 1.0:
            return []
        images = self._images()
        owners = [self._owners[branch.task] for branch in self._branches]
        latents = torch.stack([branch.latents for branch in self._branches])
        asked = [sampled(self._table, index, latents, uncond[images], owners)]
        if self._settings.solver.compares:
            # Targets are sorted by image: the first of each image is charged.
            first = dict(reversed(list(zip(images, owners, strict=True))))
            shown = sorted(first)
            payers = [first[image] for image in shown]
            asked.append(sampled(self._table, index, self._source_latents[shown], uncond[shown], payers))
        return asked

    def advance(
        self, index: int, cond: Sequence[Answer], uncond: Sequence[Answer], sources_next: Tensor
    ) -> None:
        """Advance all targets by one step; ``sources_next`` (B, C, H, W) are their images' next latents."""
        if not self._branches:
            return
        moved, earlier = self._settings.solver.advance(
            self._table, index, self._move(cond, uncond, sources_next)
        )
        known = [None] * len(moved) if earlier is None else list(earlier)
        heats = [heat for answer, count in self._counted(cond) for heat in _maps(answer, count)]
        self._branches = [
            self._blended(replace(branch, latents=row, earlier=note), maps, index, sources_next)
            for branch, row, note, maps in zip(self._branches, moved, known, heats, strict=True)
        ]

    def _move(self, cond: Sequence[Answer], uncond: Sequence[Answer], sources_next: Tensor) -> Move:
        targets = [answer.output[len(answer.output) - count :] for answer, count in self._counted(cond)]
        images = self._images()
        earlier = [branch.earlier for branch in self._branches if branch.earlier is not None]
        move = Move(
            torch.stack([branch.latents for branch in self._branches]),
            self._guided(uncond[:1], torch.cat(targets)),
            sources_next[images],
            earlier=torch.stack(earlier) if earlier else None,
        )
        if not self._settings.solver.compares:
            return move
        shown = torch.cat([answer.output[:1] for answer, count in self._counted(cond) if count])
        guided = self._guided(uncond[1:], shown)
        rows = [sorted(set(images)).index(image) for image in images]
        return replace(move, source=self._source_latents[images], source_output=guided[rows])

    def _guided(self, uncond: Sequence[Answer], cond: Tensor) -> Tensor:
        return guide(uncond[0].output, cond, self._settings.guidance) if uncond else cond

    def _counted(self, cond: Sequence[Answer]) -> list[tuple[Answer, int]]:
        """Return each answer of the conditional half with the number of its targets."""
        return list(zip(cond, self._counts, strict=True))

    def _blended(
        self, branch: _Branch, maps: tuple[Tensor, Tensor] | None, index: int, sources_next: Tensor
    ) -> _Branch:
        task = self._tasks[branch.task]
        if task.blend_words is not None and maps is not None:
            branch = self._blended_by_words(branch, task.blend_words, maps, index, sources_next[task.source])
        if task.region is None:
            return branch
        # The source at the same noise level, as blended latent diffusion (Avrahami et al. 2022, section 4.1).
        latents = torch.where(task.region, branch.latents, sources_next[task.source])
        return replace(branch, latents=latents)

    def _blended_by_words(
        self, branch: _Branch, words: BlendWords, maps: tuple[Tensor, Tensor], index: int, source_next: Tensor
    ) -> _Branch:
        heats = torch.stack([word_heat(maps[0], words.source), word_heat(maps[1], words.target)])
        # Summed over the steps so far, as published: the map of a single step covers only part of an object.
        if branch.heats is not None:
            heats = heats + branch.heats
        latents = branch.latents
        # LANCE's released step callback returns the latents unchanged, so its local blend has no effect.
        if index >= self._table.first(START_FRACTION):
            # The target has already advanced by one noise level, so the source's next latents are used.
            latents = blend(source_next, latents, heats)
        return replace(branch, latents=latents, heats=heats)

    def collect(self) -> Tensor:
        """Return the clean latents (tasks, sweep, C, H, W)."""
        found = {(branch.task, value): branch.latents for branch in self._branches for value in branch.sweep}
        sweep = range(len(self._self_steps))
        return torch.stack(
            [torch.stack([found[task, value] for value in sweep]) for task in range(len(self._tasks))]
        )


def _maps(answer: Answer, targets: int) -> list[tuple[Tensor, Tensor] | None]:
    """Return the word maps (queries, L) of each target's source and its own; None if none were collected."""
    if not answer.maps:
        return [None] * targets
    return [pair for part in answer.maps for pair in zip(part.source, part.target, strict=True)]
