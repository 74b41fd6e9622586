"""The context of planning, summaries and reports: the ledger, the store, the services and the suite."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.runs import AnyItem, Run
from counterpose_core.gate.regression_set import FrozenPair
from counterpose_core.suite import Suite
from counterpose_core.text.word_policy import WordPolicy
from counterpose_gateway.records.tenants import Allowance
from counterpose_gateway.services.ports import Services

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger
    from counterpose_gateway.summaries.cache import RunCache
    from counterpose_gateway.summaries.columns import ColumnFolder
    from counterpose_gateway.summaries.joined import JoinedWork


@dataclass(frozen=True)
class ItemsOfRun(Iterable[AnyItem]):
    """The items of a run, read as they are asked for; a method may ask the ledger for fewer."""

    ledger: Ledger
    run_id: str
    shape: type[AnyItem]
    columns: ColumnFolder | None = None

    def __iter__(self) -> Iterator[AnyItem]:
        return self.ledger.items.of(self.run_id, self.shape)


@dataclass(frozen=True, kw_only=True)
class RecordedRuns:
    """What summaries and reports are made from.

    ``columns``: where the columns of large runs are kept; None keeps none.
    """

    ledger: Ledger
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
    pairs: Mapping[str, PairedRuns] = field(default_factory=dict)
