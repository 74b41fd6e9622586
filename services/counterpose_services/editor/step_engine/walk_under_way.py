"""A walk inside the engine: the evaluations that it waits for, and the answers that have arrived."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch

from counterpose_core.editing.denoiser import Cancellation, never
from counterpose_core.editing.driver.account import Account
from counterpose_core.editing.driver.evaluation import Answer, Evaluation, Walk
from counterpose_core.editing.driver.joined_call import Piece
from counterpose_services.editor.step_engine.mode import OWN_MODE, Mode


@dataclass(frozen=True)
class Terms:
    """On what terms a request's walks run.

    ``share`` names whose work it is, such as a run: shares get equal parts of a full call. ``deadline`` is in
    seconds of the monotonic clock; of one share, what must end first goes first.
    """

    share: Hashable = None
    mode: Mode = OWN_MODE
    cancelled: Cancellation = never
    deadline: float = float("inf")


@dataclass(frozen=True, eq=False)
class Kind:
    """What may share a call: rows of one mode, shape and type, all with a gradient or none.

    Equal kinds are one object, made by `kind_of`: they are compared for every row.
    """

    mode: Mode
    optimised: bool
    latents: tuple[int, ...]
    text: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class Room:
    """Rows that are free in a call, and how many of them are granted; false if there are none to take."""

    free: int
    granted: int

    def __bool__(self) -> bool:
        return self.free > 0 and self.granted > 0

    def less(self, rows: int) -> Room:
        """Return what is left after some rows are taken."""
        return Room(self.free - rows, self.granted - rows)


@dataclass
class _Waiting:
    """Rows of evaluation ``number`` that no call has taken yet."""

    number: int
    piece: Piece
    kind: Kind


@dataclass(frozen=True, eq=False)
class Taken:
    """A part of a walk's evaluation ``number`` that a call takes."""

    walk: WalkUnderWay
    number: int
    piece: Piece
    kind: Kind


@dataclass(eq=False)
class WalkUnderWay:
    """One walk with its account and its terms; ``ended`` gets its result or its error."""

    walk: Walk[Any]
    account: Account
    terms: Terms
    ended: Future[Any] = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)
    over: bool = False
    waiting: dict[Kind, int] = field(default_factory=dict)
    """How many rows of each kind wait for a call."""
    _waiting: list[_Waiting] = field(default_factory=list)
    _answers: list[list[tuple[int, Answer]]] = field(default_factory=list)
    _missing: int = 0

    def begin(self) -> None:
        """Take the walk to its first evaluations."""
        self._resume(lambda: next(self.walk))

    def take(self, kind: Kind, room: Room, capacity: int, fits: Callable[[Piece], bool]) -> list[Taken]:
        """Take rows of a kind for a call that holds ``capacity`` rows.

        Targets of one source stay together, also beyond what is granted, unless they exceed the capacity;
        other rows may be split.
        """
        taken, left = list[Taken](), list[_Waiting]()
        for each in self._waiting:
            piece = each.piece
            part: Piece | None = None
            rest: Piece | None = piece
            if room and each.kind is kind and fits(piece):
                part, rest = _split(piece, room, capacity)
            if part is not None:
                taken.append(Taken(self, each.number, part, kind))
                room = room.less(part.size)
            if rest is not None:
                left.append(_Waiting(each.number, rest, each.kind))
        self._wait_for(left)
        return taken

    def give_back(self, taken: Taken) -> None:
        """Wait again for what a call could not do."""
        self._wait_for([_Waiting(taken.number, taken.piece, taken.kind), *self._waiting])

    def answer(self, taken: Taken, answer: Answer) -> None:
        """Take note of the answer to a part; the walk goes on when nothing is missing."""
        self._answers[taken.number].append((taken.piece.start, answer))
        self._missing -= answer.output.shape[0]
        if self._missing == 0 and not self.over:
            joined = [_joined(parts) for parts in self._answers]
            self._resume(lambda: self.walk.send(joined))

    def fail(self, error: BaseException) -> None:
        """End the walk with an error."""
        if not self.over:
            self.walk.close()
            self._end(lambda: self.ended.set_exception(error))

    def _resume(self, advance: Callable[[], Sequence[Evaluation]]) -> None:
        try:
            needs = advance()
        except StopIteration as end:
            result = end.value
            self._end(lambda: self.ended.set_result(result))
            return
        # Whatever the walk raises is its own: the other walks go on.
        except Exception as error:
            raised = error
            self._end(lambda: self.ended.set_exception(raised))
            return
        self._answers = [[] for _ in needs]
        self._missing = sum(len(each.owners) for each in needs)
        mode = self.terms.mode
        self._wait_for(
            [_Waiting(number, whole(each), kind_of(each, mode)) for number, each in enumerate(needs)]
        )

    def _wait_for(self, waiting: list[_Waiting]) -> None:
        self._waiting = waiting
        self.waiting = {}
        for each in waiting:
            self.waiting[each.kind] = self.waiting.get(each.kind, 0) + each.piece.size

    def _end(self, tell: Callable[[], None]) -> None:
        self.over = True
        self._wait_for([])
        tell()


def _joined(parts: list[tuple[int, Answer]]) -> Answer:
    if len(parts) == 1:
        return parts[0][1]
    return Answer.join([answer for _, answer in sorted(parts, key=lambda part: part[0])])


def whole(evaluation: Evaluation) -> Piece:
    """Return all rows of an evaluation as one piece."""
    # A carried piece counts its targets; the source in the first row goes with them.
    return Piece(evaluation, int(evaluation.carry is not None), len(evaluation.owners))


def kind_of(evaluation: Evaluation, mode: Mode) -> Kind:
    """Return what may share a call with an evaluation."""
    latents, text = evaluation.latents, evaluation.text
    return _kind(mode, evaluation.objective is not None, latents.shape[1:], text.shape[1:], latents.dtype)


@lru_cache(maxsize=1024)
def _kind(mode: Mode, optimised: bool, latents: torch.Size, text: torch.Size, dtype: torch.dtype) -> Kind:
    return Kind(mode, optimised, latents, text, dtype)


def _split(piece: Piece, room: Room, capacity: int) -> tuple[Piece | None, Piece | None]:
    """Return what of a piece goes into a call, and the rest."""
    if piece.size <= (room.free if piece.carried else min(room.free, room.granted)):
        return piece, None
    if not piece.carried:
        return _cut(piece, piece.start + min(room.free, room.granted))
    # A source that is evaluated twice is wasted work, so only what no call can hold is cut.
    if room.free < capacity or piece.size <= capacity:
        return None, piece
    return _cut(piece, piece.start + max(room.free - 1, 1))


def _cut(piece: Piece, stop: int) -> tuple[Piece, Piece | None]:
    rest = Piece(piece.evaluation, stop, piece.stop) if stop < piece.stop else None
    return Piece(piece.evaluation, piece.start, min(stop, piece.stop)), rest
