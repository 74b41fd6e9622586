"""The editing methods each on its own: one driver runs a walk to its end, without the step engine.

What the engine answers to many requests at once is compared with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from counterpose_core.editing.branches import Branches, EditSettings, EditTask
from counterpose_core.editing.denoiser import (
    AttentionControl,
    Cancellation,
    Denoiser,
    never,
    raise_if_cancelled,
)
from counterpose_core.editing.driver.account import Account
from counterpose_core.editing.driver.evaluation import Answer, Evaluation, Owner, T, Walk
from counterpose_core.editing.driver.joined_call import JoinedCall, Piece
from counterpose_core.editing.edit import Edited, InvertedAndEdited, run_edit, run_null_text_edit
from counterpose_core.editing.generate import GuidedPrompts, generate_walk
from counterpose_core.editing.inversion.inversion import Inverted
from counterpose_core.editing.inversion.null_text import NullTextSettings, null_text_walk
from counterpose_core.editing.inversion.tuning_free import direct_walk, negative_prompt_walk
from counterpose_core.editing.noise_schedule import NoiseSchedule, Timetable
from counterpose_core.editing.solvers.ddim import ddim_inversion_walk
from counterpose_core.editing.textual_inversion import (
    TemplateReader,
    TextualInversionSettings,
    textual_inversion_walk,
)
from counterpose_core.editing.training_task import Learned, TokenTask
from counterpose_core.types import Cost
from counterpose_services.editor.step_engine.mode import Mode


class Driver:
    """Runs walks in lockstep and records the cost of each owner.

    A call holds both guided halves of ``batch`` samples, or ``batch`` samples whose gradient is needed; None
    means no limit. ``cancelled`` is polled before every call.
    """

    def __init__(
        self, denoiser: Denoiser, *, batch: int | None = None, cancelled: Cancellation = never
    ) -> None:
        self._denoiser, self._batch, self._cancelled = denoiser, batch, cancelled
        self._account = Account()

    def cost(self, owner: Owner) -> Cost:
        """Return the cost of an owner's evaluations so far, as `Account.cost` counts them."""
        return self._account.cost(owner)

    def run(self, walk: Walk[T]) -> T:
        """Run one walk to its end.

        Raises:
            AttentionNotHooked: the denoiser has no attention that could be controlled.
            Cancelled: the caller asked to stop.
        """
        return self.run_all([walk])[0]

    @torch.no_grad()
    def run_all(self, walks: Sequence[Walk[T]]) -> list[T]:
        """Run walks together; the evaluations that they need at the same time share calls."""
        results: dict[int, T] = {}
        answers: dict[int, Sequence[Answer]] = {}
        while len(results) < len(walks):
            needs: dict[int, Sequence[Evaluation]] = {}
            for number, walk in enumerate(walks):
                if number in results:
                    continue
                try:
                    needs[number] = walk.send(answers[number]) if number in answers else next(walk)
                except StopIteration as ended:
                    results[number] = ended.value
            flat = iter(self._answer([need for each in needs.values() for need in each]))
            answers = {number: [next(flat) for _ in each] for number, each in needs.items()}
        return [results[number] for number in range(len(walks))]

    def _answer(self, evaluations: Sequence[Evaluation]) -> list[Answer]:
        found: dict[int, list[Answer]] = {id(evaluation): [] for evaluation in evaluations}
        plain = [each for each in evaluations if each.objective is None]
        optimised = [each for each in evaluations if each.objective is not None]
        batch = self._batch or max((len(each.owners) for each in evaluations), default=1) * len(evaluations)
        # Guidance doubles the samples of a batch; a backward pass needs about twice the memory.
        for pieces in [*_packed(plain, 2 * batch), *_packed(optimised, batch)]:
            raise_if_cancelled(self._cancelled)
            self._account.charge(pieces)
            call = JoinedCall(pieces)
            for piece, answer in zip(pieces, call.answers(self._denoiser), strict=True):
                found[id(piece.evaluation)].append(answer)
            self._account.settle(pieces, call)
        return [Answer.join(found[id(evaluation)]) for evaluation in evaluations]


def _packed(evaluations: Sequence[Evaluation], capacity: int) -> list[list[Piece]]:
    """Pack evaluations of one kind into calls of at most ``capacity`` rows, or of one source and one target.

    Evaluations with carried attention come first and stay whole if they fit; the others fill the free rows.
    """
    calls: list[list[Piece]] = []
    for piece in (piece for each in evaluations if each.carry is not None for piece in _cut(each, capacity)):
        if calls and _room(calls[-1], capacity) >= piece.size and _alike(calls[-1][0], piece):
            calls[-1].append(piece)
        else:
            calls.append([piece])
    place = 0
    for evaluation in (each for each in evaluations if each.carry is None):
        start, end = 0, len(evaluation.owners)
        while start < end:
            if place == len(calls):
                calls.append([])
            stop = min(start + max(_room(calls[place], capacity), 0), end)
            if stop > start:
                calls[place].append(Piece(evaluation, start, stop))
            else:
                place += 1
            start = stop
    return calls


def _cut(evaluation: Evaluation, capacity: int) -> Iterator[Piece]:
    """Split the targets of an evaluation into pieces that fit a call, each with the source."""
    step, end = max(capacity - 1, 1), len(evaluation.owners)
    for start in range(1, end, step):
        yield Piece(evaluation, start, min(start + step, end))


def _room(call: Sequence[Piece], capacity: int) -> int:
    return capacity - sum(piece.size for piece in call)


def _alike(one: Piece, other: Piece) -> bool:
    """Return True if one control serves both: a call edits cross-attention in all its targets or none."""
    carries = one.evaluation.carry, other.evaluation.carry
    return len({carry.cross is None for carry in carries if carry is not None}) == 1


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
    """Do what `run_edit` does, with a driver of its own; ``cancelled`` is polled before every call."""
    driver = Driver(denoiser, batch=settings.batch, cancelled=cancelled)
    return run_edit(driver, table, inverted, text, tasks, settings)


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
    """Do what `run_null_text_edit` does, with a driver of its own."""
    driver = Driver(denoiser, batch=edit_settings.batch, cancelled=cancelled)
    return run_null_text_edit(driver, table, clean, text, null, settings, tasks, edit_settings)


def null_text_inversion(
    denoiser: Denoiser,
    table: Timetable,
    clean: Tensor,
    text: Tensor,
    null: Tensor,
    settings: NullTextSettings,
    *,
    cancelled: Cancellation = never,
) -> Inverted:
    """Run `null_text_walk` on its own, without edits.

    Images share only the network calls: each has its own embedding, optimiser state and early stop. Only the
    embedding gets a gradient, so freeze the weights.
    """
    owners = range(clean.shape[0])
    walk = null_text_walk(table, clean, text, null, settings, owners, Branches.none(table))
    return Driver(denoiser, cancelled=cancelled).run(walk)


def direct_inversion(
    denoiser: Denoiser,
    table: Timetable,
    clean: Tensor,
    text: Tensor,
    null: Tensor,
    *,
    cancelled: Cancellation = never,
) -> Inverted:
    """Run `direct_walk` on its own."""
    owners = range(clean.shape[0])
    return Driver(denoiser, cancelled=cancelled).run(direct_walk(table, clean, text, null, owners))


def negative_prompt_inversion(
    denoiser: Denoiser, table: Timetable, clean: Tensor, text: Tensor, *, cancelled: Cancellation = never
) -> Inverted:
    """Run `negative_prompt_walk` on its own."""
    owners = range(clean.shape[0])
    return Driver(denoiser, cancelled=cancelled).run(negative_prompt_walk(table, clean, text, owners))


def ddim_inversion(
    denoiser: Denoiser, table: Timetable, clean: Tensor, text: Tensor, *, cancelled: Cancellation = never
) -> Tensor:
    """Run `ddim_inversion_walk` on its own."""
    owners = range(clean.shape[0])
    return Driver(denoiser, cancelled=cancelled).run(ddim_inversion_walk(table, clean, text, owners))


def generate(
    denoiser: Denoiser,
    table: Timetable,
    noise: Tensor,
    text: Tensor,
    null: Tensor,
    *,
    guidance: float,
    cancelled: Cancellation = never,
) -> Tensor:
    """Run `generate_walk` on its own."""
    prompts = GuidedPrompts(text=text, null=null, guidance=guidance, owners=range(noise.shape[0]))
    return Driver(denoiser, cancelled=cancelled).run(generate_walk(table, noise, prompts))


def textual_inversion(
    denoiser: Denoiser,
    tasks: Sequence[TokenTask],
    read: TemplateReader,
    schedule: NoiseSchedule,
    settings: TextualInversionSettings,
    *,
    cancelled: Cancellation = never,
) -> list[Learned]:
    """Run `textual_inversion_walk` on its own; only the vectors are trained, so freeze the weights."""
    walk = textual_inversion_walk(tasks, read, schedule, settings, range(len(tasks)))
    return Driver(denoiser, cancelled=cancelled).run(walk)


class PlainDenoiser:
    """A denoiser of one mode, such as a network that does nothing."""

    def __init__(self, denoiser: Denoiser) -> None:
        self._denoiser = denoiser

    @contextmanager
    def in_mode(self, mode: Mode) -> Iterator[None]:
        """Compute as ever: there is no other mode."""
        yield

    def __call__(
        self, latents: Tensor, timestep: Tensor, text: Tensor, control: AttentionControl | None = None
    ) -> Tensor:
        """Predict as the denoiser does."""
        return self._denoiser(latents, timestep, text, control)
