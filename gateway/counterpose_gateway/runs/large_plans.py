"""Large plans: stored in chunks that let other writers in, and made again where a process was killed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Protocol, TypeVar

from counterpose_core.contract.datasets import Source
from counterpose_core.errors import InternalError
from counterpose_gateway.records.items import LeasedStage, PlannedItem
from counterpose_gateway.records.pace import Pace
from counterpose_gateway.records.source_table import SourceTable

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger
    from counterpose_gateway.ledger.runs.stages import Stages

STORED_AT_CREATION = 5_000
"""Items that are stored before the request is answered, in about a second: only larger runs are seen as
``validating``."""


Found = TypeVar("Found", bound=Sized, covariant=True)


class _Reading(Protocol[Found]):
    def __call__(self, name: str, *, most: int | None = None) -> Found: ...


class Blobs(Protocol):
    """Reads what a plan was made from."""

    def get(self, ref: str) -> bytes:
        """Return the verified bytes named ``ref``."""


@dataclass(frozen=True)
class PlanInputs:
    """What a plan was made from: datasets as they were then, whatever was added since, and blobs."""

    counts: Mapping[str, int]
    ledger: Ledger
    store: Blobs

    def sources(self, dataset: str) -> Sequence[Source]:
        """Return the sources of a dataset that the plan saw, without the groups that it found.

        Raises:
            InternalError: the plan was not made from it, or sources are missing.
        """
        return self._all(dataset, self.ledger.datasets.sources)

    def table(self, dataset: str) -> SourceTable:
        """Return the same as a compact table, for plans of many items; raises as `sources`."""
        return self._all(dataset, self.ledger.datasets.table)

    def _all(self, dataset: str, read: _Reading[Found]) -> Found:
        most = self.counts.get(dataset)
        found = None if most is None else read(dataset, most=most)
        if found is None or len(found) != most:
            there = 0 if found is None else len(found)
            raise InternalError(f"the plan was made from {most} sources of {dataset!r}, not {there}")
        return found


def store_plan(
    leased: LeasedStage, items: Iterator[PlannedItem], stages: Stages, *, most: int | None = None
) -> None:
    """Store the items of a run's first stage in chunks; the run waits for a worker when all are stored.

    Args:
        leased: the lease of the planning.
        items: the items from the lease's first one on.
        stages: where they are stored.
        most: stop when the run has so many items; default: store all.

    Raises:
        LeaseLost: another process plans the run now, or it was cancelled; nothing more is written.
        InternalError: an ordinal is wrong, or an item key repeats.
    """
    pace = Pace()
    chunk = _next(items, pace.size, leased.first)
    while True:
        following = _next(items, pace.size, leased.first + len(chunk))
        pace.let_others_in()
        leased, locked = stages.store_first(leased, chunk, last=not following)
        pace.note(locked)
        chunk = following
        if not following or (most is not None and leased.first >= most):
            return


def _next(items: Iterator[PlannedItem], size: int, first: int) -> list[PlannedItem]:
    chunk = list(islice(items, size))
    for ordinal, item in enumerate(chunk, start=first):
        if item.ordinal != ordinal:
            raise InternalError(f"item {item.item_key!r} has the ordinal {item.ordinal}, not {ordinal}")
    return chunk
