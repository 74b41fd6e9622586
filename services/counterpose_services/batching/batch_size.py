"""Adaptive batch sizes: halved if a batch does not fit in memory, and doubled again after successes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")

NO_ROOM = ("can't allocate memory", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
"""Parts of the messages of RuntimeErrors that mean the same as torch.OutOfMemoryError."""
FIRST_PATIENCE = 8
"""Number of full batches that must fit before twice the size is tried."""
LONGEST_PATIENCE = 1024


class DoesNotFit(Exception):
    """There was not enough memory; smaller parts may fit."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if ``error`` means that there was not enough memory."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(part in str(error) for part in NO_ROOM)


def within_memory(work: Callable[[], Result]) -> Result:
    """Return the result of ``work``.

    Raises:
        DoesNotFit: there was not enough memory; everything that the attempt allocated is released.
    """
    try:
        return work()
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    # After the handler, because the error's traceback keeps alive everything that the work allocated.
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    raise DoesNotFit


@dataclass(frozen=True)
class BatchedResults(Generic[Item, Result]):
    """The results of the batches, in order, and the items that do not fit in memory on their own."""

    results: list[Result]
    too_large: list[Item]


class BatchSizer:
    """The batch size of one kind of work; it is kept between requests, so a size that fits is found once."""

    def __init__(self, largest: int) -> None:
        self._largest, self.size = largest, largest
        self._patience, self._fitted, self._on_trial = FIRST_PATIENCE, 0, False

    def run(
        self, items: Sequence[Item], work: Callable[[Sequence[Item]], Result]
    ) -> BatchedResults[Item, Result]:
        """Do ``work`` on all items, batch by batch in order.

        A batch that does not fit is repeated in smaller ones; only returned results count.
        """
        waiting, results, too_large = list(items), list[Result](), list[Item]()
        while waiting:
            batch = waiting[: self.size]
            try:
                results.append(within_memory(partial(work, batch)))
            except DoesNotFit:
                if len(batch) > 1:
                    self.shrink(len(batch))
                    continue
                too_large += batch
            else:
                self.fit(len(batch))
            waiting = waiting[len(batch) :]
        return BatchedResults(results, too_large)

    def shrink(self, tried: int) -> None:
        """Halve the size after a batch of ``tried`` did not fit."""
        # A size that fails again is tried less and less often, because a failed batch is wasted work.
        if self._on_trial:
            self._patience = min(2 * self._patience, LONGEST_PATIENCE)
        self.size, self._fitted, self._on_trial = (tried + 1) // 2, 0, False

    def fit(self, samples: int) -> None:
        """Take note of a batch that fitted; after enough full ones, twice the size is tried."""
        # A batch that was not full gives no evidence for a larger one.
        if samples < self.size or self.size == self._largest:
            return
        self._fitted, self._on_trial = self._fitted + 1, False
        if self._fitted >= self._patience:
            self.size, self._fitted, self._on_trial = min(2 * self.size, self._largest), 0, True


def together_or_alone(
    items: Sequence[Item], work: Callable[[Sequence[Item]], Result]
) -> BatchedResults[Item, Result]:
    """Do ``work`` on all items at once, or, if that does not fit, on each alone.

    For work that itself divides its samples into calls that fit.
    """
    try:
        return BatchedResults([within_memory(partial(work, items))] if items else [], [])
    except DoesNotFit:
        if len(items) == 1:
            return BatchedResults([], list(items))
    results, too_large = list[Result](), list[Item]()
    for item in items:
        try:
            results.append(within_memory(partial(work, [item])))
        except DoesNotFit:
            too_large.append(item)
    return BatchedResults(results, too_large)


class BatchSizers:
    """A batch size for each kind of work: a sample of null-text inversion needs more memory than an edit."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._sizers: dict[str, BatchSizer] = {}

    def of(self, kind: str) -> BatchSizer:
        """Return the batch size of ``kind``, the same object each time."""
        return self._sizers.setdefault(kind, BatchSizer(self._largest))
