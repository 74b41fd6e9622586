"""What the ledger and the workflows hand each other: planned items, leased groups, the recorder.

Plain dataclasses and a Protocol, so that workflows know no database and the ledger knows no method.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from faultline_core.contract.dataset_interfaces import DatasetInterfaceConfig
from faultline_core.contract.runs import Provenance
from faultline_core.contract.shift_benchmarks import ShiftBenchmarkConfig
from faultline_core.contract.stress_tests import StressTestConfig
from faultline_core.errors import FaultlineError
from faultline_core.types import EditType, ItemKind


@dataclass(frozen=True, kw_only=True)
class PlannedItem:
    """One unit of work of a run, as planned at its creation; ``item_key`` is unique in the run.

    Items with one ``source_id`` are leased together. ``caption`` is the one the user brought along, None
    where the captioner shall write it. An item that is made from no picture names one of its class.
    """

    item_key: str
    ordinal: int
    kind: ItemKind
    source_id: str
    source_image: str
    label: str
    edit_type: EditType | None = None
    slot: int = 0
    caption: str | None = None


@dataclass(frozen=True, kw_only=True)
class LeasedItem(PlannedItem):
    """A planned item that this worker holds: every write names ``fence``, so a zombie writes nothing."""

    id: str
    fence: int
    attempt: int


RunConfig = StressTestConfig | DatasetInterfaceConfig | ShiftBenchmarkConfig
"""What a run of each kind was resolved to at its creation."""


@dataclass(frozen=True, kw_only=True)
class LeasedGroup:
    """All leased items of one source of one run: they share its caption, inversion and embeddings."""

    run_id: str
    config: RunConfig
    source_id: str
    items: Sequence[LeasedItem]


class Recorder(Protocol):
    """Where a workflow writes outcomes: exactly one for each leased item.

    async def all_failed(record: Recorder, group: LeasedGroup, error: FaultlineError) -> None:
        for item in group.items:
            await record.failed(item, error)
    """

    async def done(self, item: LeasedItem, result: Provenance) -> None:
        """Record what the item made."""
        ...

    async def filtered(
        self, item: LeasedItem, reason: str, detail: str = "", result: Provenance | None = None
    ) -> None:
        """Record why the item was dropped, with the scores and provenance of its best variant if any."""
        ...

    async def failed(self, item: LeasedItem, error: FaultlineError) -> None:
        """Record the failure; a retryable one goes back to pending while attempts are left."""
        ...

    async def cancelled(self) -> bool:
        """Tell whether the run is being cancelled; polled between service calls."""
        ...
