"""The ledger's rows: whose they are, how they are found and locked, and the bodies that they make.

`Ledger.of` returns a tenant's view. Each of its transactions carries the tenant, and every statement that
finds an object asks for it there: an object of another tenant is found as little as one that never was.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    String,
    bindparam,
    literal_column,
    or_,
    select,
    true,
)

from counterpose_core.contract.datasets import Dataset, DatasetImport, Source
from counterpose_core.contract.runs import AnyItem, RequestCounts, Run, RunEvent
from counterpose_core.errors import IdempotencyConflict, IdempotencyInFlight, NotFound
from counterpose_core.types import FINAL_ITEM_STATES, RunState
from counterpose_gateway.ledger.tables import schema
from counterpose_gateway.records.items import LeasedItem, PlannedItem
from counterpose_gateway.records.tenants import DEFAULT_TENANT

OPTION = "counterpose_tenant"
_BETWEEN_NAMES = "/"
"""Between a tenant and the name of its dataset, in the key of that: no name has it."""
_BETWEEN_KEYS = " "
"""The same for idempotency keys, which have no spaces."""
_KEY_OF_A_TENANT = re.compile(rf".+{_BETWEEN_KEYS}[0-9a-f]{{64}}", re.DOTALL)

COUNTED = ("pending", "done", "filtered", "failed", "cancelled")
"""The counters of a run; ``pending`` includes leased items."""

OPEN_STATES: tuple[RunState, ...] = ("queued", "in_progress")
"""The states of runs whose open items are worked on."""

KEPT: ColumnElement[bool] = schema.runs.c.state != "deleting"
"""The condition on runs that still exist for others: of a run that is being deleted, some rows are left."""

# Made once, like all statements of a lease. SQLite ignores FOR UPDATE: every writer holds its only lock.
_MINE = bindparam("tenant", type_=String)
OWN: ColumnElement[bool] = or_(_MINE.is_(None), schema.runs.c.tenant == _MINE)
"""The condition on runs that the transaction may see, for statements that are made once; see `named`."""
_RUN = select(schema.runs).where(schema.runs.c.id == bindparam("run"), OWN, KEPT)
_LOCKED_RUN = _RUN.with_for_update()
_LOCKED_COUNTERS = (
    select(*(column for column in schema.runs.c if column.name not in ("config", "functions", "problem")))
    .where(schema.runs.c.id == bindparam("run"), OWN, KEPT)
    .with_for_update()
)
_LOCKED_DELETED = (
    select(schema.runs.c.id).where(schema.runs.c.id == bindparam("run"), ~KEPT).with_for_update()
)  # fmt: skip

_items = schema.items.c
# Literals, not parameters: SQLite uses a partial index only if it sees the index's own condition.
OPEN: ColumnElement[bool] = _items.state.in_((literal_column("'pending'"), literal_column("'leased'")))
"""The condition of the partial indexes on open items."""
LEASED: ColumnElement[bool] = _items.state.concat(literal_column("''")) == literal_column("'leased'")
"""The condition on leased items that are named by their ids.

As an expression, which no index holds: with ``state = 'leased'`` PostgreSQL, as long as it knows nothing of
a new run's items, reads all open items of all runs by their index and picks the named ones out of them.
"""
ENDED: ColumnElement[bool] = _items.state.in_([literal_column(f"'{state}'") for state in FINAL_ITEM_STATES])
"""The condition of the partial index on items by state."""


def known_moment(seconds: float) -> dt.datetime:
    """Return seconds since the epoch as a time in UTC."""
    return dt.datetime.fromtimestamp(seconds, dt.UTC)


def first(connection: Connection, query: Select[*tuple[object, ...]]) -> RowMapping | None:
    """Return the first row of ``query`` by column names, or None."""
    return connection.execute(query.limit(1)).mappings().first()


def run_row(connection: Connection, run_id: str) -> RowMapping:
    """Return the run's row.

    Raises:
        NotFound: the run does not exist.
    """
    return _found(connection, _RUN, run_id)


def locked_run(connection: Connection, run_id: str) -> RowMapping:
    """Lock and return the run's row: every writer locks it first, so no two wait for each other.

    Raises:
        NotFound: the run does not exist.
    """
    return _found(connection, _LOCKED_RUN, run_id)


def locked_counters(connection: Connection, run_id: str) -> RowMapping:
    """Lock the run's row and return it without its configuration, which may have a megabyte.

    Raises:
        NotFound: the run does not exist.
    """
    return _found(connection, _LOCKED_COUNTERS, run_id)


def _found(connection: Connection, query: Select[*tuple[object, ...]], run_id: str) -> RowMapping:
    row = connection.execute(query, named(connection, run_id)).mappings().first()
    if row is None:
        raise absent(connection, run_id)
    return row


def named(connection: Connection, run_id: str) -> dict[str, str | None]:
    """Return the parameters of a statement about one run with the condition `OWN`."""
    return {"run": run_id, "tenant": tenant_of(connection)}


def lock_deleted(connection: Connection, run_id: str) -> bool:
    """Lock the row of a run that is being deleted; False if none is left."""
    return connection.execute(_LOCKED_DELETED, {"run": run_id}).first() is not None


def absent(connection: Connection, run_id: str) -> NotFound:
    """Return the error that says whether a missing run was deleted or never existed."""
    gone = schema.deleted_runs.c
    mine = is_own(connection, gone.tenant)
    if first(connection, select(gone.id).where(gone.id == run_id, mine)) is not None:
        return NotFound(f"run {run_id!r} was deleted; list the runs to see the others")
    return NotFound(f"no run has the id {run_id!r}; list the runs to find it")


def counts(row: RowMapping | Mapping[str, Any]) -> RequestCounts:
    """Return the run's counters."""
    return RequestCounts(total=row["total"], **{name: row[name] for name in COUNTED})


def run(row: RowMapping | Mapping[str, Any]) -> Run:
    """Return the run of a row of ``runs``."""
    return Run.model_validate({**row, "request_counts": counts(row), "resolved_config": row["config"]})


def event(row: RowMapping) -> RunEvent:
    """Return the event of a row of ``events``."""
    return RunEvent.model_validate({**row, "request_counts": row["counts"]})


def item(row: RowMapping, shape: type[AnyItem]) -> AnyItem:
    """Return the item of a row of ``items``, in the shape of its run's kind."""
    return shape.model_validate(dict(row))


def new_item(run_id: str, item: PlannedItem, *, stage: int = 1, first: int = 0) -> dict[str, object]:
    """Return the row of a planned item.

    Args:
        run_id: the run.
        item: the item, its ordinal counted from 0 in its stage.
        stage: the stage that it is planned for, counted from 1.
        first: the ordinal in the run of the stage's first item.
    """
    ordinal = first + item.ordinal
    return {
        **vars(item), "id": f"{run_id}.{ordinal}", "run_id": run_id, "ordinal": ordinal, "stage": stage,
        "state": "pending", "attempts": 0, "fence": 0, "due_at": 0.0,
    }  # fmt: skip


LEASED_FIELDS = (
    "id", "item_key", "ordinal", "kind", "item_group", "source_image", "label", "edit_type", "slot",
    "caption", "instruction", "labels", "fence",
)  # fmt: skip


def leased_item(row: RowMapping) -> LeasedItem:
    """Return the leased item of a row of ``items``, for a worker."""
    return LeasedItem(attempt=row["attempts"], **{name: row[name] for name in LEASED_FIELDS})


def dataset(row: RowMapping, imported: DatasetImport | None, tenant: str | None) -> Dataset:
    """Return the dataset of a row of ``datasets``, with what is known of its import.

    ``tenant``: who asks; None for who sees all, and who is told the key.
    """
    name = row["name"] if tenant is None else dataset_name(row["name"])
    return Dataset.model_validate({**row, "name": name, "imported": imported})


def source(row: RowMapping | Mapping[str, Any]) -> Source:
    """Return the source of a row of ``sources``."""
    pair, labels = row["pair"], row["labels"]
    documents = {"pair": None if pair is None else json.loads(pair), "labels": json.loads(labels or "[]")}
    return Source.model_validate({**row, **documents})


def tenant_of(connection: Connection) -> str | None:
    """Return whose transaction this is; None for who sees all."""
    tenant: str | None = connection.get_execution_options().get(OPTION)
    return tenant


def is_own(connection: Connection, tenant: Column[str]) -> ColumnElement[bool]:
    """Return the condition on rows whose objects the transaction may see, by their column ``tenant``."""
    mine = tenant_of(connection)
    return true() if mine is None else tenant == mine


def dataset_key(tenant: str | None, name: str) -> str:
    """Return the key of a tenant's dataset: two tenants may use one name. Who sees all gives the key."""
    if tenant is None or (tenant == DEFAULT_TENANT and _BETWEEN_NAMES not in name):
        return name
    return f"{tenant}{_BETWEEN_NAMES}{name}"


def dataset_name(key: str) -> str:
    """Return the name by which its tenant knows the dataset of this key."""
    return key.rpartition(_BETWEEN_NAMES)[2]


def dataset_tenant(key: str) -> str:
    """Return whose the dataset of this key is."""
    return key.rpartition(_BETWEEN_NAMES)[0] or DEFAULT_TENANT


def require_same_body(row: RowMapping, key: str, fingerprint: str) -> None:
    """Refuse an idempotency key whose first request had another body, by the row that it made.

    Raises:
        IdempotencyConflict: it had.
    """
    if row["fingerprint"] != fingerprint:
        raise IdempotencyConflict(
            f"the idempotency key {key!r} belongs to another body; send this one under a new key"
        )


def in_flight(key: str) -> IdempotencyInFlight:
    """Return the error of a request whose key another call has just now."""
    return IdempotencyInFlight(
        f"the first call with the idempotency key {key!r} is still running; retry later"
    )


def request_key(tenant: str | None, key: str) -> str:
    """Return a tenant's idempotency key as it is kept, so that no other tenant's key is equal."""
    if (tenant is None or tenant == DEFAULT_TENANT) and not _KEY_OF_A_TENANT.fullmatch(key):
        return key
    return f"{tenant or DEFAULT_TENANT}{_BETWEEN_KEYS}{hashlib.sha256(key.encode()).hexdigest()}"
