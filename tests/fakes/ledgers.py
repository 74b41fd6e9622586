"""Runs for ledger tests: planned without a workflow, on a clock that the test sets."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import event

from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.contract.runs import ItemResult
from counterpose_core.contract.stress_tests import (
    GateThresholds,
    StressTestConfig,
    StressTestCreate,
    TextThresholds,
)
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.database.engine import Database
from counterpose_gateway.records.items import LeasedGroup, PlannedItem
from counterpose_gateway.records.outcomes import Done

IMAGE = "a" * 64


@cache
def _migrated() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        Database(f"sqlite:///{folder}/ledger.db").close()
        return (Path(folder) / "ledger.db").read_bytes()


def migrated_file(folder: Path) -> str:
    """The URL of an empty ledger in ``folder``; migrating once for all tests saves most of the time."""
    (folder / "ledger.db").write_bytes(_migrated())
    return f"sqlite:///{folder / 'ledger.db'}"


def new_ledger(folder: Path, clock: Callable[[], float] = time.time) -> Ledger:
    """An empty ledger in ``folder``."""
    return Ledger(migrated_file(folder), clock=clock)


@dataclass
class Clock:
    """A clock that the test sets, in seconds since the epoch."""

    now: float = 1_000_000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def config() -> dict[str, Any]:
    """A resolved configuration that the ledger can read back."""
    resolved = StressTestConfig(
        request=StressTestCreate(dataset="demo", classifiers=["steady"], seed=0), suite="miniature",
        preset=PromptToPromptPreset(), gate=GateThresholds(), text=TextThresholds(), models={}, versions={},
        dataset_digest="0" * 64, classes=["sled"],
    )  # fmt: skip
    return resolved.model_dump(mode="json")


def planned_items(sources: int = 3, per_source: int = 3) -> list[PlannedItem]:
    """The given number of edits of each of the given number of sources."""
    return [
        PlannedItem(
            item_key=f"key-{ordinal}", ordinal=ordinal, kind="edit", edit_type="object",
            item_group=f"source-{ordinal // per_source}", source_image=IMAGE, label="sled",
        )
        for ordinal in range(sources * per_source)
    ]  # fmt: skip


def create_run(ledger: Ledger, *, sources: int = 3, per_source: int = 3, key: str | None = None) -> str:
    """A run of such items."""
    return ledger.runs.create(
        kind="stress-test", dataset="demo", config=config(), items=planned_items(sources, per_source),
        fingerprint="f" * 64, idempotency_key=key,
    ).id  # fmt: skip


def done(image: str = IMAGE) -> Done:
    """A good outcome."""
    return Done(result=ItemResult(image=image, caption="a sled"))


def lease(ledger: Ledger, *, worker: str = "worker", seconds: float = 30.0) -> LeasedGroup:
    """Lease the next group; there must be one."""
    group = ledger.items.lease(worker, seconds=seconds)
    assert group is not None
    return group


def finish_all(ledger: Ledger) -> None:
    """Lease and finish every available item, with good outcomes."""
    while (group := ledger.items.lease("worker", seconds=30.0)) is not None:
        for item in group.items:
            ledger.items.finish(item.id, item.fence, done())


def statements(ledger: Ledger) -> list[tuple[str, Any]]:
    """The statements that the ledger sends from now on, with their parameters."""
    seen: list[tuple[str, Any]] = []

    @event.listens_for(ledger._session.database.engine, "before_cursor_execute")
    def note(_: object, __: object, statement: str, parameters: Any, *___: object) -> None:
        seen.append((statement, parameters))

    return seen
