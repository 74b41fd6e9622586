"""The driver of walks: it joins the evaluations that several walks need next into few denoiser calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from counterpose_core.editing.denoiser import Cancellation, Denoiser, never, raise_if_cancelled
from counterpose_core.editing.driver.account import Account
from counterpose_core.editing.driver.evaluation import Answer, Evaluation, Owner, T, Walk
from counterpose_core.editing.driver.joined_call import JoinedCall, Piece
from counterpose_core.types import Cost


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
