"""The branches of a sweep: targets of edits on their way, parted where one value lets go of the source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from faultline_core.editing.attention_control import CrossEdit
from faultline_core.editing.driver.evaluation import Answer, Carry, Evaluation, Owner
from faultline_core.editing.local_blend import START_FRACTION, BlendWords, blend, word_heat
from faultline_core.editing.noise_schedule import Timetable
from faultline_core.editing.solvers.ddim import guide, sampled
from faultline_core.editing.solvers.solver import DDIM, Move, Solver
from faultline_core.editing.sweep import Fork
from faultline_core.stress_test.sweep import cross_steps
from faultline_core.types import InjectionEnd


@dataclass(frozen=True)
class EditTask:
    """One edited caption for one inverted image: its embedding (L, D) and how attention is carried over.

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

    ``fork_steps`` are steps before which injected targets are noted, for later edits to go on from. With
    guidance 1 the unconditional half has no say, and is not asked for.
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
    """One target under way, for every sweep value that has not set it apart yet."""

    task: int
    latents: Tensor
    sweep: tuple[int, ...]
    injected: bool = True
    heats: Tensor | None = None
    earlier: Tensor | None = None


@dataclass(frozen=True)
class SourceRows:
    """The images at one step: latents (B, C, H, W), captions (B, L, D), and who pays for their rows.

    Without ``owners`` an image is evaluated only where an edit looks at it, and the edit pays.
    """

    latents: Tensor
    text: Tensor
    owners: Sequence[Owner] | None = None


class Branches:
    """All targets of some tasks, from noise to clean, whose owners are ``owners``.

    A step is `part`, then `conditional` and `unconditional` to ask with, then `advance` with the answers.
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
        # Targets in each evaluation of the conditional half.
        self._asked: list[int] = []
        # What the last of them were asked beside.
        self._beside = torch.empty(0)
        self.forks: list[list[Fork]] = [[] for _ in tasks]
        late = max(self._starts, default=0)
        if late > min(self._self_steps, default=0):
            raise ValueError(f"step {late} is after the end of an injection; start the branch earlier")

    @classmethod
    def none(cls, table: Timetable) -> Branches:
        """No target at all: what is walked is walked for its own sake."""
        return cls(table, (), EditSettings(guidance=1.0, cross_replace=0.0, self_replace=()), ())

    @property
    def first_step(self) -> int:
        """The step before which the first target sets out."""
        return min(self._starts, default=0)

    def part(self, index: int, noise: Tensor) -> None:
        """Let targets set out from ``noise`` (B, C, H, W), and part values that let go before ``index``."""
        self._branches += self._starting(index, noise)
        if index in self._settings.fork_steps:
            for branch in self._branches:
                if branch.injected:
                    self.forks[branch.task].append(Fork(index, branch.latents, branch.heats, branch.earlier))
        parted = [part for branch in self._branches for part in self._parted(branch, index)]
        # By image: those of one image look at one source row.
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
        # A sweep value is a time at which injection ends: paths are equal, bit for bit, until the first one
        # ends.
        held = tuple(value for value in branch.sweep if self._self_steps[value] > index)
        freed = tuple(value for value in branch.sweep if self._self_steps[value] <= index)
        if held:
            yield replace(branch, sweep=held, injected=True)
        if freed:
            yield replace(branch, sweep=freed, injected=False)

    def conditional(self, index: int, sources: SourceRows) -> list[Evaluation]:
        """Ask for the edited captions' half, one evaluation an image, its source in the first row.

        Where sources have owners, every image is asked for, the first row always being its source;
        else only images that have targets are, without the source once nothing is carried over.
        """
        images, self._beside = self._images(), sources.latents
        chosen = range(len(sources.latents)) if sources.owners is not None else sorted(set(images))
        self._asked = [images.count(image) for image in chosen]
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
            # First come, first charged, where edits pay.
            owners = [sources.owners[image] if sources.owners is not None else owners[0], *owners]
        asked = sampled(self._table, index, torch.cat(latents), torch.cat(text), owners)
        return replace(asked, carry=carry)

    def _carry(self, branches: Sequence[_Branch], index: int) -> Carry | None:
        """Say what is carried over at step ``index``; None once targets no longer look at their source."""
        tasks = [self._tasks[branch.task] for branch in branches]
        crossed = index < self._cross_steps and bool(tasks)
        injected = tuple(branch.injected for branch in branches)
        collect = any(task.blend_words is not None for task in tasks)
        if not crossed and not any(injected) and not collect:
            return None
        cross = CrossEdit.stack([task.cross for task in tasks]) if crossed else None
        return Carry(cross, injected, collect)

    def _images(self) -> list[int]:
        """The source of each target."""
        return [self._tasks[branch.task].source for branch in self._branches]

    def unconditional(self, index: int, uncond: Tensor) -> list[Evaluation]:
        """Ask for the other half under the images' embeddings (B, L, D), in the order of the targets.

        Where targets are compared with their sources these are asked about as well, so that both are guided.
        """
        if not self._branches or self._settings.guidance == 1.0:
            return []
        images = self._images()
        owners = [self._owners[branch.task] for branch in self._branches]
        latents = torch.stack([branch.latents for branch in self._branches])
        asked = [sampled(self._table, index, latents, uncond[images], owners)]
        if self._settings.solver.compares:
            # Targets come image by image: the first of each pays.
            first = dict(reversed(list(zip(images, owners, strict=True))))
            shown = sorted(first)
            payers = [first[image] for image in shown]
            asked.append(sampled(self._table, index, self._beside[shown], uncond[shown], payers))
        return asked

    def advance(
        self, index: int, cond: Sequence[Answer], uncond: Sequence[Answer], sources_next: Tensor
    ) -> None:
        """Step all targets; ``sources_next`` (B, C, H, W) is where their images get to."""
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
        return replace(move, source=self._beside[images], source_output=guided[rows])

    def _guided(self, uncond: Sequence[Answer], cond: Tensor) -> Tensor:
        return guide(uncond[0].output, cond, self._settings.guidance) if uncond else cond

    def _counted(self, cond: Sequence[Answer]) -> list[tuple[Answer, int]]:
        """Each answer of the conditional half with the number of its targets."""
        return list(zip(cond, self._asked, strict=True))

    def _blended(
        self, branch: _Branch, maps: tuple[Tensor, Tensor] | None, index: int, sources_next: Tensor
    ) -> _Branch:
        task = self._tasks[branch.task]
        if task.blend_words is None or maps is None:
            return branch
        heats = torch.stack(
            [word_heat(maps[0], task.blend_words.source), word_heat(maps[1], task.blend_words.target)]
        )
        # Summed over the steps so far, as published: single steps look at too little of an object.
        if branch.heats is not None:
            heats = heats + branch.heats
        latents = branch.latents
        # LANCE's released step callback hands the latents back unchanged, so its local blend never acts.
        if index >= self._table.first(START_FRACTION):
            # Latents have moved one level on by now, so the source is read one level on as well.
            latents = blend(sources_next[task.source], latents, heats)
        return replace(branch, latents=latents, heats=heats)

    def collect(self) -> Tensor:
        """Return the latents (tasks, sweep, C, H, W) arrived at."""
        found = {(branch.task, value): branch.latents for branch in self._branches for value in branch.sweep}
        sweep = range(len(self._self_steps))
        return torch.stack(
            [torch.stack([found[task, value] for value in sweep]) for task in range(len(self._tasks))]
        )


def _maps(answer: Answer, targets: int) -> list[tuple[Tensor, Tensor] | None]:
    """Pair the word maps (queries, L) of each target's source and its own; None where nobody asked."""
    if not answer.maps:
        return [None] * targets
    return [pair for part in answer.maps for pair in zip(part.source, part.target, strict=True)]
