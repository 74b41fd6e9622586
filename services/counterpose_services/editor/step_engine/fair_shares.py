"""Which rows the next call takes: all that wait if they fit, else equal parts of it for each share."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence

from counterpose_core.editing.driver.joined_call import Piece
from counterpose_services.editor.step_engine.walk_under_way import Kind, Room, Taken, WalkUnderWay

OPTIMISED_WORK = 3
"""Work steps of a row whose gradient is needed: the pass back costs about as much as two forward."""

MOST_CREDIT = 4
"""Full calls that a share can be owed or owe: what it could not use is not saved up for ever."""


class FairShares:
    """Deficit round robin in work steps (Shreedhar and Varghese 1995), one queue for each share.

    A share that took more than its part, because rows belong together or a call had room, owes the others
    the difference, and takes less later.
    """

    def __init__(self) -> None:
        self._credit: dict[Hashable, float] = {}
        self._turn = 0

    def forget(self, present: Iterable[Hashable]) -> None:
        """Forget the credit of shares that are not ``present``: it is not saved up while there is no work."""
        kept = set(present)
        self._credit = {share: credit for share, credit in self._credit.items() if share in kept}

    def pick(self, walks: Sequence[WalkUnderWay], kind: Kind, capacity: int) -> list[Taken]:
        """Take up to ``capacity`` rows of a kind from the walks that wait for some."""
        call = _NextCall(kind, capacity)
        if sum(walk.waiting[kind] for walk in walks) <= capacity:
            for walk in walks:
                call.take(walk, capacity)
        else:
            self._share(self._queues(walks), call)
        return call.taken

    def _queues(self, walks: Sequence[WalkUnderWay]) -> dict[Hashable, list[WalkUnderWay]]:
        """Sort the walks by share, beginning with another share each time."""
        queues: dict[Hashable, list[WalkUnderWay]] = {}
        for walk in sorted(walks, key=lambda walk: (walk.terms.deadline, walk.since)):
            queues.setdefault(walk.terms.share, []).append(walk)
        self._turn += 1
        # By their own order and not by deadline, or one share would always come first.
        names = sorted(queues, key=str)
        first = self._turn % len(names)
        return {share: queues[share] for share in (*names[first:], *names[:first])}

    def _share(self, queues: dict[Hashable, list[WalkUnderWay]], call: _NextCall) -> None:
        work = OPTIMISED_WORK if call.kind.optimised else 1
        part = call.capacity / len(queues)
        credit = {share: self._credit.get(share, 0.0) for share in queues}
        rows = dict.fromkeys(queues, 0)
        # Whoever is owed most begins: its rows fit even if they have to stay together.
        order = sorted(queues, key=lambda share: -credit[share])
        grants = {share: math.ceil(part + credit[share] / work) for share in queues}
        # Room that nobody has a right to is no reason for a smaller call: at last, it is anybody's.
        for granted in (grants, dict.fromkeys(queues, call.capacity)):
            for share in order:
                left = granted[share]
                for walk in queues[share]:
                    taken = call.take(walk, left)
                    left, rows[share] = left - taken, rows[share] + taken
        whole, bound = sum(rows.values()), MOST_CREDIT * call.capacity * work
        for share in queues:
            moved = credit[share] + work * (whole / len(queues) - rows[share])
            self._credit[share] = max(-bound, min(bound, moved))


class _NextCall:
    """The rows that a call takes; they are alike in what one attention control can serve."""

    def __init__(self, kind: Kind, capacity: int) -> None:
        self.kind, self.capacity = kind, capacity
        self.taken: list[Taken] = []
        self._free = capacity
        self._crossed: bool | None = None

    def take(self, walk: WalkUnderWay, granted: int) -> int:
        """Take up to so many rows of a walk, more where its rows belong together; return how many."""
        found = walk.take(self.kind, Room(self._free, granted), self.capacity, self._serves)
        self.taken += found
        rows = sum(each.piece.size for each in found)
        self._free -= rows
        return rows

    def _serves(self, piece: Piece) -> bool:
        """Whether a call edits cross-attention in all its targets, or in none."""
        carry = piece.evaluation.carry
        if carry is None:
            return True
        if self._crossed is None:
            self._crossed = carry.cross is not None
        return self._crossed == (carry.cross is not None)
