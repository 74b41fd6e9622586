"""How many samples share a call: as many as fit into memory, found by halving and tried larger again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from faultline_services.memory import fits

Item = TypeVar("Item")

FIRST_PATIENCE = 8
"""Full batches that have to fit before twice as many samples are tried."""
LONGEST_PATIENCE = 1024


class Bucket:
    """The batch size of one kind of work; it outlives a request, so a size that fits is found once."""

    def __init__(self, largest: int) -> None:
        self._largest, self.size = largest, largest
        self._patience, self._fitted, self._on_trial = FIRST_PATIENCE, 0, False

    def run(self, items: Sequence[Item], work: Callable[[Sequence[Item]], None]) -> list[Item]:
        """Do ``work`` on all items, batch by batch in order; return those that do not even fit alone.

        A batch that did not fit is done again in smaller ones, so ``work`` notes its results at its end.
        """
        waiting, too_large = list(items), list[Item]()
        while waiting:
            batch = waiting[: self.size]
            if fits(partial(work, batch)):
                self._fit(len(batch))
            elif len(batch) > 1:
                self._shrink(len(batch))
                continue
            else:
                too_large += batch
            waiting = waiting[len(batch) :]
        return too_large

    def run_whole(
        self, items: Sequence[Item], samples: int, work: Callable[[Sequence[Item], int], None]
    ) -> list[Item]:
        """Do ``work`` on all items at once, which cuts their ``samples`` into calls of the size it is given.

        Returns:
            The items that do not even fit alone, one sample a call.
        """
        while not fits(partial(work, items, self.size)):
            if self.size > 1 and samples > 1:
                self._shrink(min(self.size, samples))
            elif len(items) == 1:
                return list(items)
            else:
                return [item for item in items if not fits(partial(work, [item], 1))]
        self._fit(samples)
        return []

    def _shrink(self, tried: int) -> None:
        # A size that failed again is tried ever more rarely: a failed batch is work done twice.
        if self._on_trial:
            self._patience = min(2 * self._patience, LONGEST_PATIENCE)
        self.size, self._fitted, self._on_trial = (tried + 1) // 2, 0, False

    def _fit(self, samples: int) -> None:
        # A batch that was not full says nothing about a larger one.
        if samples < self.size or self.size == self._largest:
            return
        self._fitted, self._on_trial = self._fitted + 1, False
        if self._fitted >= self._patience:
            self.size, self._fitted, self._on_trial = min(2 * self.size, self._largest), 0, True


class Buckets:
    """A bucket for each kind of work: a sample of null-text inversion takes several times that of an edit."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._buckets: dict[str, Bucket] = {}

    def of(self, kind: str) -> Bucket:
        """Return the bucket of ``kind``, the same one each time."""
        return self._buckets.setdefault(kind, Bucket(self._largest))
