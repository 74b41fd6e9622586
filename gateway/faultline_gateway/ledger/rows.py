"""From the ledger's rows to the bodies of the contract."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from types import MappingProxyType

from sqlalchemy import Connection, RowMapping, Select, select

from faultline_core.contract.base import Problem
from faultline_core.contract.dataset_interfaces import DatasetInterfaceConfig
from faultline_core.contract.datasets import Dataset, Source
from faultline_core.contract.runs import AnyItem, RequestCounts, Run
from faultline_core.contract.shift_benchmarks import ShiftBenchmarkConfig
from faultline_core.contract.stress_tests import StressTestConfig
from faultline_core.errors import NotFound
from faultline_core.types import RunKind
from faultline_gateway.ledger import schema
from faultline_gateway.work_items import LeasedItem, RunConfig

_CONFIGS: Mapping[RunKind, type[RunConfig]] = MappingProxyType(
    {
        "stress-test": StressTestConfig,
        "dataset-interface": DatasetInterfaceConfig,
        "shift-benchmark": ShiftBenchmarkConfig,
    }
)

COUNTED = ("pending", "done", "filtered", "failed", "cancelled")
"""The counters of a run; ``pending`` includes what is leased."""


def moment(seconds: float | None) -> dt.datetime | None:
    """Return seconds since the epoch as a time in UTC."""
    return None if seconds is None else dt.datetime.fromtimestamp(seconds, dt.UTC)


def first(connection: Connection, query: Select[*tuple[object, ...]]) -> RowMapping | None:
    """Return the first row of ``query`` by column names, or None."""
    return connection.execute(query.limit(1)).mappings().first()


def locked_run(connection: Connection, run_id: str) -> RowMapping:
    """Return the run's row and hold it: every writer takes it first, so no two wait for each other.

    Raises:
        NotFound: there is no such run.
    """
    # SQLite ignores FOR UPDATE: there every writer holds the one lock already.
    row = first(connection, select(schema.runs).where(schema.runs.c.id == run_id).with_for_update())
    if row is None:
        raise NotFound(f"there is no run {run_id!r}")
    return row


def counts(row: RowMapping) -> RequestCounts:
    """Return the run's counters."""
    return RequestCounts(total=row["total"], **{name: row[name] for name in COUNTED})


def run(row: RowMapping) -> Run:
    """Return the run of a row of ``runs``."""
    return Run(
        id=row["id"],
        kind=row["kind"],
        state=row["state"],
        dataset=row["dataset"],
        created_at=dt.datetime.fromtimestamp(row["created_at"], dt.UTC),
        started_at=moment(row["started_at"]),
        ended_at=moment(row["ended_at"]),
        request_counts=counts(row),
        resolved_config=row["config"],
        problem=None if row["problem"] is None else Problem.model_validate(row["problem"]),
    )


_ITEM_FIELDS = (
    "id", "ordinal", "kind", "source_id", "source_image", "label", "edit_type", "slot", "state", "reason",
    "code", "detail", "attempts",
)  # fmt: skip


def item(row: RowMapping, shape: type[AnyItem]) -> AnyItem:
    """Return the item of a row of ``items``, as runs of its kind have them."""
    return shape.model_validate({name: row[name] for name in (*_ITEM_FIELDS, "result")})


_LEASED_FIELDS = (
    "id", "item_key", "ordinal", "kind", "source_id", "source_image", "label", "edit_type", "slot", "caption",
    "fence",
)  # fmt: skip


def leased_item(row: RowMapping) -> LeasedItem:
    """Return what a worker gets of a row of ``items``."""
    return LeasedItem(attempt=row["attempts"], **{name: row[name] for name in _LEASED_FIELDS})


def config(row: RowMapping) -> RunConfig:
    """Return the configuration that the run was resolved to at its creation."""
    return _CONFIGS[row["kind"]].model_validate(row["config"])


def dataset(row: RowMapping) -> Dataset:
    """Return the dataset of a row of ``datasets``."""
    fields = {name: row[name] for name in ("name", "classes", "n_sources", "digest", "rejected")}
    return Dataset(created_at=dt.datetime.fromtimestamp(row["created_at"], dt.UTC), **fields)


def source(row: RowMapping) -> Source:
    """Return the source of a row of ``sources``."""
    return Source.model_validate({name: row[name] for name in Source.model_fields})
