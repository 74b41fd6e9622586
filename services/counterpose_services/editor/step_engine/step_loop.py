"""The turns of the step engine: pack what waits, evaluate the network once, take the walks a step further."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from time import perf_counter

import torch

from counterpose_core.editing.driver.account import Account
from counterpose_core.editing.driver.evaluation import Answer
from counterpose_core.editing.driver.joined_call import JoinedCall, Piece
from counterpose_core.errors import Cancelled, CounterposeError
from counterpose_services.batching.batch_size import DoesNotFit, within_memory
from counterpose_services.editor.step_engine.capacity import Capacity, RowLimits
from counterpose_services.editor.step_engine.counters import StepCounters
from counterpose_services.editor.step_engine.fair_shares import FairShares
from counterpose_services.editor.step_engine.mode import ModalDenoiser, Mode
from counterpose_services.editor.step_engine.walk_under_way import Kind, Taken, WalkUnderWay

MODE_CALLS = 16
"""Calls after which another mode has its turn: a change may have to convert all weights."""


class StepLoop:
    """Owns the network and the walks under way; used by one thread at a time, without gradients.

    Each turn has the phases of a diffusion server: rows that wait are packed into one call, the network is
    evaluated, and each walk takes its own scheduler step. Encoding and decoding are the callers', between
    turns.
    """

    def __init__(self, denoiser: ModalDenoiser, limits: RowLimits) -> None:
        self._denoiser = denoiser
        self.capacity, self.counters = Capacity(limits), StepCounters()
        self._shares = FairShares()
        self._walks: list[WalkUnderWay] = []
        self._mode: tuple[Mode, ExitStack] | None = None
        self._mode_calls = 0
        self._turns = itertools.count()
        self._last: dict[Kind, int] = {}

    @property
    def busy(self) -> bool:
        """Whether walks are under way."""
        return bool(self._walks)

    def begin(self, walks: Iterable[WalkUnderWay]) -> None:
        """Take walks to their first evaluations, which are in the next call if it has room."""
        for walk in walks:
            walk.begin()
            self._walks.append(walk)

    def fail(self, error: CounterposeError) -> None:
        """End every walk with an error."""
        for walk in self._walks:
            walk.fail(error)
        self._walks = []

    @torch.no_grad()
    def turn(self) -> None:
        """Make one call, and take the walks that it completes one step further."""
        for walk in self._walks:
            if walk.terms.cancelled():
                walk.fail(Cancelled("cancelled between two diffusion steps"))
        self._forget_ended()
        kind = self._next_kind()
        if kind is None:
            return
        capacity = self.capacity.rows(optimised=kind.optimised)
        having = [walk for walk in self._walks if kind in walk.waiting]
        taken = self._shares.pick(having, kind, capacity)
        self._enter(kind.mode)
        self._call(kind, taken, capacity)
        self._forget_ended()

    def _next_kind(self) -> Kind | None:
        """Return the kind that has waited longest, of the network's present mode unless others wait long."""
        kinds: set[Kind] = set().union(*(walk.waiting for walk in self._walks))
        if not kinds:
            return None
        if self._mode is not None and self._mode_calls < MODE_CALLS:
            kinds = {kind for kind in kinds if kind.mode == self._mode[0]} or kinds
        chosen = min(kinds, key=lambda kind: self._last.get(kind, -1))
        self._last = {kind: turn for kind, turn in self._last.items() if kind in kinds}
        self._last[chosen] = next(self._turns)
        return chosen

    def _call(self, kind: Kind, taken: Sequence[Taken], capacity: int) -> None:
        rows = sum(each.piece.size for each in taken)
        began = perf_counter()
        try:
            answers = within_memory(partial(self._answers, taken))
        except DoesNotFit:
            self._too_large(kind, taken, rows)
            return
        # A call fails for one walk's reason; the others must not end with it.
        except Exception as error:
            self._failed(kind, taken, error)
            return
        self.counters.count(rows, capacity, perf_counter() - began)
        self.capacity.fitted(rows, optimised=kind.optimised)
        for each, answer in zip(taken, answers, strict=True):
            each.walk.answer(each, answer)

    def _answers(self, taken: Sequence[Taken]) -> list[Answer]:
        call = JoinedCall([each.piece for each in taken])
        parts: dict[Account, list[Piece]] = {}
        for each in taken:
            parts.setdefault(each.walk.account, []).append(each.piece)
        for account, pieces in parts.items():
            account.charge(pieces)
        answers = call.answers(self._denoiser)
        if call.row_map_bytes or call.host_syncs:
            for account, pieces in parts.items():
                account.settle(pieces, call)
        return answers

    def _too_large(self, kind: Kind, taken: Sequence[Taken], rows: int) -> None:
        """Try again in smaller calls; a walk whose smallest piece does not fit ends with DoesNotFit."""
        self.counters.shrunk += 1
        smallest = len(taken) == 1 and taken[0].piece.size <= 1 + taken[0].piece.carried
        if smallest:
            taken[0].walk.fail(DoesNotFit())
            return
        self.capacity.exceeded(rows, optimised=kind.optimised)
        for each in reversed(taken):
            each.walk.give_back(each)

    def _failed(self, kind: Kind, taken: Sequence[Taken], error: Exception) -> None:
        """Repeat a call walk by walk to find whose rows it cannot answer; alone, the walk ends with it."""
        walks = {id(each.walk): each.walk for each in taken}
        if len(walks) == 1:
            taken[0].walk.fail(error)
            return
        for name in walks:
            own = [each for each in taken if id(each.walk) == name]
            self._call(kind, own, sum(each.piece.size for each in own))

    def _forget_ended(self) -> None:
        if any(walk.over for walk in self._walks):
            self._walks = [walk for walk in self._walks if not walk.over]
            self._shares.forget(walk.terms.share for walk in self._walks)

    def _enter(self, mode: Mode) -> None:
        if self._mode is not None and self._mode[0] == mode:
            self._mode_calls += 1
            return
        self.leave_mode()
        stack = ExitStack()
        stack.enter_context(self._denoiser.in_mode(mode))
        self._mode, self._mode_calls = (mode, stack), 1

    def leave_mode(self) -> None:
        """Give the network back its own precision and guidance."""
        if self._mode is not None:
            self._mode[1].close()
            self._mode = None
