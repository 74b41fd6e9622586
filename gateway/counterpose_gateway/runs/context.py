"""The context of planning, summaries and reports: the ledger, the store, the services and the suite."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.datasets import Dataset, Source
from counterpose_core.contract.runs import AnyItem, CommonestFailure, Run, RunEvent, RunList
from counterpose_core.contract.shift_thresholds import ShiftThresholdDecision
from counterpose_core.gate.regression_set import FrozenPair
from counterpose_core.shift_benchmark.shift_thresholds import ShiftDecision
from counterpose_core.suite import Suite
from counterpose_core.text.word_policy import WordPolicy
from counterpose_core.types import RunKind
from counterpose_gateway.access.tenants import Allowance
from counterpose_gateway.columns import ColumnFolder, Stamp
from counterpose_gateway.runs.cache import RunCache
from counterpose_gateway.runs.items import LeasedStage, PlannedItem
from counterpose_gateway.runs.joined import JoinedWork
from counterpose_gateway.runs.recorded_items import RecordedItem
from counterpose_gateway.runs.source_table import SourceTable
from counterpose_gateway.services.ports import Services


class RunLedger(Protocol):
    """The part of the ledger that runs and methods use; `counterpose_gateway.ledger.Ledger` is one.

    for item in ledger.items_of(run_id, TokenItem):
        ...
    """

    def of_run(self, run_id: str) -> RunLedger:
        """Return the ledger as the tenant of a run sees it; raises `NotFound`."""
        ...

    def dataset(self, name: str) -> Dataset:
        """Return the dataset of this name; raises `UnknownDataset`."""
        ...

    def sources(self, name: str, *, most: int | None = None) -> Sequence[Source]:
        """Return the images of a dataset in the order they were added: all, or the first ``most``."""
        ...

    def source_table(self, name: str, *, most: int | None = None) -> SourceTable:
        """Return the same as a compact table."""
        ...

    def create_run(
        self,
        *,
        kind: RunKind,
        dataset: str,
        config: dict[str, Any],
        items: Sequence[PlannedItem],
        fingerprint: str,
        idempotency_key: str | None = None,
        staged: bool = False,
        parent: str | None = None,
        functions: Mapping[str, str] | None = None,
        plan_sources: Mapping[str, int] | None = None,
        trace: str | None = None,
    ) -> Run:
        """Make a run and these items durable together and return it."""
        ...

    def store_first_stage(
        self, leased: LeasedStage, items: Sequence[PlannedItem], *, last: bool
    ) -> tuple[LeasedStage, float]:
        """Add some items to a run that is being planned."""
        ...

    def release_stage(self, leased: LeasedStage) -> None:
        """Give the lease to plan a run back."""
        ...

    def run_for_key(self, idempotency_key: str, fingerprint: str) -> str | None:
        """Return the run that this key made, or None; raises `IdempotencyConflict`."""
        ...

    def functions(self, run_id: str) -> Mapping[str, str]:
        """Return the addresses of the classifiers that the caller's program serves; raises `NotFound`."""
        ...

    def run_list(self, *, kind: RunKind | None = None, after: str | None = None, limit: int = 50) -> RunList:
        """Return a page of runs, of this kind if one is named, newest first."""
        ...

    def run(self, run_id: str, kind: RunKind | None = None) -> Run:
        """Return a run, of this kind if one is named; raises `NotFound`."""
        ...

    def children(self, run_id: str) -> list[Run]:
        """Return the runs that continue a run, oldest first."""
        ...

    def items_of(self, run_id: str, shape: type[AnyItem], *, from_ordinal: int = 0) -> Iterator[AnyItem]:
        """Yield the items of a run in planned order."""
        ...

    def recorded_items(
        self, run_id: str, *, first: int = 0, number: int | None = None
    ) -> Iterator[RecordedItem]:
        """Yield items of a run in planned order, as documents: from a place on, all or a ``number``."""
        ...

    def item_stamps(self, run_id: str, *, first: int = 0, number: int | None = None) -> Iterator[Stamp]:
        """Yield the stamps of the same items."""
        ...

    def items_named(self, run_id: str, shape: type[AnyItem], ids: Sequence[str]) -> list[AnyItem]:
        """Return the items of a run that have these ids, in planned order."""
        ...

    def commonest_failure(self, run_id: str) -> CommonestFailure | None:
        """Return why most of a run's failed items failed; None if none did, `NotFound` without such a run."""
        ...

    def last_event(self, run_id: str) -> RunEvent:
        """Return the newest event of a run; raises `NotFound`."""
        ...

    def shift_decisions(self, run_id: str) -> list[ShiftThresholdDecision]:
        """Return the decisions on a benchmark's shift thresholds, oldest first."""
        ...

    def add_shift_decision(self, run_id: str, decision: ShiftDecision) -> ShiftThresholdDecision:
        """Record a decision and return the recorded form."""
        ...

    def holds(self, ref: str) -> bool:
        """Return whether an object of the tenant names a blob."""
        ...

    def keep_blobs(self, refs: Iterable[str]) -> None:
        """Note blobs of the tenant that no dataset and no item names."""
        ...

    def note_usage(self, images: int, gpu_seconds: float) -> None:
        """Count what the tenant used without a run."""
        ...

    def allowance(self) -> Allowance:
        """Return what the tenant may use this month, and has used."""
        ...

    def now(self) -> dt.datetime:
        """Return the ledger's time."""
        ...


@dataclass(frozen=True)
class ItemsOfRun(Iterable[AnyItem]):
    """The items of a run, read as they are asked for; a method may ask the ledger for fewer."""

    ledger: RunLedger
    run_id: str
    shape: type[AnyItem]
    columns: ColumnFolder | None = None

    def __iter__(self) -> Iterator[AnyItem]:
        return self.ledger.items_of(self.run_id, self.shape)


@dataclass(frozen=True, kw_only=True)
class RecordedRuns:
    """What summaries and reports are made from.

    ``columns``: where the columns of large runs are kept; None keeps none.
    """

    ledger: RunLedger
    store: BlobStore
    columns: ColumnFolder | None = None

    def of_run(self, run_id: str) -> RecordedRuns:
        """Return what a run may be summed up from: its tenant's objects; raises `NotFound`."""
        return RecordedRuns(ledger=self.ledger.of_run(run_id), store=self.store, columns=self.columns)


PairedRuns = Callable[[Run, RecordedRuns], Iterable[FrozenPair]]
"""Reads the pairs of a source image and its counterfactual that an ended run kept."""


class Credentials(Protocol):
    """Signs images; `counterpose_gateway.images.content_credentials.ContentCredentials` does."""

    def sign(self, png: bytes, source_type: str, told: Mapping[str, object]) -> bytes:
        """Return the image with a signed manifest of what is known of it."""
        ...


@dataclass(frozen=True, kw_only=True)
class RunContext(RecordedRuns):
    """Everything that a method may use outside a worker.

    ``joined``: the processes that make summaries and reports; None makes them in the caller's thread.
    ``credentials``: signs exported images; None signs none.
    ``policy``: what no text of a request or an edit may say.
    ``allowance``: the tenant's, as it was read for this request; None has it read when it is asked for.
    ``pairs``: how the counterfactuals of an ended run are read, by its kind.
    """

    services: Services
    suite: Suite
    cache: RunCache
    max_items_per_run: int
    allowance: Allowance | None = None
    functions_allowed: bool = False
    joined: JoinedWork | None = None
    credentials: Credentials | None = None
    policy: WordPolicy = field(default_factory=WordPolicy)
    pairs: Mapping[RunKind, PairedRuns] = field(default_factory=dict)
