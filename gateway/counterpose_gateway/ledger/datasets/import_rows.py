"""Rows of imports: how far one has come, what is held under a lease, and its end when no shard is left.

Rows of datasets: found, locked, and what is stored with them.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, bindparam, func, select, update

from counterpose_core.contract.base import Problem
from counterpose_core.contract.datasets import DatasetImport, FailedShard, RejectedSource
from counterpose_core.errors import (
    CounterposeError,
    DatasetEmpty,
    DatasetNotReady,
    LeaseLost,
    UnknownDataset,
    error_for,
)
from counterpose_core.text.near_names import did_you_mean
from counterpose_gateway.ledger.tables import rows, schema
from counterpose_gateway.records.imports import LeasedImport, LeasedShard

MOST_REJECTED = 100
"""Rejected files of an import that are listed; all are counted."""

MOST_FAILED_SHARDS = 20
GOING_ON = ("listing", "importing")


def import_row(connection: Connection, name: str, *, lock: bool = False) -> RowMapping | None:
    """Return the row of a dataset's import, or None if it has none."""
    query = select(schema.imports).where(_imports.dataset == name)
    return rows.first(connection, query.with_for_update() if lock else query)


def require_ended(connection: Connection, key: str) -> None:
    """Refuse what needs the whole dataset of a key.

    Raises:
        DatasetNotReady: it is being imported.
    """
    state = connection.execute(select(_imports.state).where(_imports.dataset == key)).scalar()
    if state in GOING_ON:
        name = rows.dataset_name(key)
        raise DatasetNotReady(
            f"dataset {name!r} is still being imported; wait until its import has ended "
            f"(counterpose datasets show {name})"
        )


def of_dataset(connection: Connection, name: str) -> DatasetImport | None:
    """Return the import of a dataset, or None if it has none."""
    row = import_row(connection, name)
    if row is None:
        return None
    counted = _counted(connection, name)
    return DatasetImport(
        url=row["request"]["url"],
        layout=row["layout"],
        state=row["state"],
        shards=row["listed"],
        shards_done=counted.get("done", (0, 0, 0))[0],
        shards_failed=counted.get("failed", (0, 0, 0))[0],
        images=sum(taken for _, taken, _ in counted.values()),
        n_rejected=sum(rejected for _, _, rejected in counted.values()),
        rejected=_rejected(connection, name) if any(each[2] for each in counted.values()) else [],
        failed_shards=_failed(connection, name) if "failed" in counted else [],
        problem=None if row["problem"] is None else Problem.model_validate(row["problem"]),
    )


def _counted(connection: Connection, name: str) -> dict[str, tuple[int, int, int]]:
    """Return number, taken and rejected images of the shards of each state."""
    query = select(_shards.state, func.count(), func.sum(_shards.taken), func.sum(_shards.rejected))
    found = connection.execute(query.where(_shards.dataset == name).group_by(_shards.state))
    return {state: (int(number), int(taken), int(rejected)) for state, number, taken, rejected in found}


def _rejected(connection: Connection, name: str) -> list[RejectedSource]:
    some = _some(connection, _shards.rejections, _shards.rejected > 0, name, MOST_REJECTED)
    return [RejectedSource.model_validate(entry) for row in some for entry in row[1]][:MOST_REJECTED]


def _failed(connection: Connection, name: str) -> list[FailedShard]:
    some = _some(connection, _shards.problem, _shards.state == "failed", name, MOST_FAILED_SHARDS)
    return [FailedShard(shard=path, code=why["code"], detail=why["detail"]) for path, why in some]


def _some(
    connection: Connection, column: Any, condition: ColumnElement[bool], name: str, most: int
) -> list[tuple[str, Any]]:
    query = select(_shards.path, column).where(_shards.dataset == name, condition, column.is_not(None))
    found = connection.execute(query.order_by(_shards.ordinal).limit(most)).all()
    return [(path, value) for path, value in found]


_imports = schema.imports.c
_shards = schema.import_shards.c


def _mine(leased: LeasedImport) -> Any:
    if isinstance(leased, LeasedShard):
        return (_shards.dataset == leased.dataset) & (_shards.ordinal == leased.ordinal)
    return _imports.dataset == leased.dataset


def held(connection: Connection, leased: LeasedImport) -> RowMapping:
    """Lock and return the row of the lease; raises LeaseLost if the lease is void."""
    table = schema.import_shards if isinstance(leased, LeasedShard) else schema.imports
    row = rows.first(connection, select(table).where(_mine(leased)).with_for_update())
    state = "leased" if isinstance(leased, LeasedShard) else "listing"
    if row is None or (row["state"], row["fence"]) != (state, leased.fence):
        raise LeaseLost(f"the lease of an import into {leased.dataset!r} is no longer valid")
    return row


def change(connection: Connection, leased: LeasedImport, values: dict[str, Any]) -> None:
    """Write values into the row of the lease."""
    table = schema.import_shards if isinstance(leased, LeasedShard) else schema.imports
    connection.execute(update(table).where(_mine(leased)).values(values))


def end_if_all_ended(connection: Connection, dataset: RowMapping) -> None:
    """End the import if the listing has ended and no shard is open; the row of the dataset is locked."""
    name = dataset["name"]
    state = connection.execute(select(_imports.state).where(_imports.dataset == name)).scalar()
    mine = _shards.dataset == name
    left = connection.execute(select(_shards.ordinal).where(mine, schema.OPEN_SHARDS).limit(1)).first()
    if state != "importing" or left is not None:
        return
    n_sources = select(schema.datasets.c.n_sources).where(schema.datasets.c.name == name)
    if not connection.execute(n_sources).scalar_one():
        fail_import(connection, name, _nothing(connection, name))
        return
    failed = select(func.count()).where(mine, _shards.state == "failed")
    if number := connection.execute(failed).scalar_one():
        query = select(_shards.problem).where(mine, _shards.state == "failed").order_by(_shards.ordinal)
        first = connection.execute(query.limit(1)).scalar_one()
        others = f"; {number - 1} more failed" if number > 1 else ""
        fail_import(connection, name, error_for(first["code"], first["detail"] + others))
        return
    connection.execute(update(schema.imports).where(_imports.dataset == name).values(state="done"))


def _nothing(connection: Connection, name: str) -> CounterposeError:
    known = of_dataset(connection, name)
    assert known is not None  # it is ending now
    if known.failed_shards:
        return error_for(known.failed_shards[0].code, known.failed_shards[0].detail)
    why = f": {known.rejected[0].filename!r}: {known.rejected[0].detail}" if known.rejected else ""
    return DatasetEmpty(f"no image was found at {known.url!r} in the layout {known.layout!r}{why}")


def fail_import(connection: Connection, name: str, error: CounterposeError) -> None:
    """Fail the import; its open shards wait until it is asked for again."""
    failed = {"state": "failed", "problem": problem_of(error)}
    connection.execute(update(schema.imports).where(_imports.dataset == name).values(failed))
    left = (_shards.dataset == name) & schema.OPEN_SHARDS
    connection.execute(update(schema.import_shards).where(left).values(state="stopped"))


def problem_of(error: CounterposeError) -> dict[str, Any]:
    """Return an error as the ledger keeps it."""
    return Problem.of(error).model_dump(mode="json")


_datasets = schema.datasets.c

_MOST_NEAR = 1000
"""Datasets among which a misspelt name is looked for."""

# Made once: each request for a run reads them.
_DATASET = select(schema.datasets, schema.EXPIRES_AT).where(
    _datasets.name == bindparam("of_name"), schema.KEPT_DATASETS
)

_LOCKED_DATASET = _DATASET.with_for_update()


def locked_dataset(connection: Connection, key: str) -> RowMapping:
    """Lock and return a dataset's row: every writer locks it before its import's and its shards'."""
    return dataset_row(connection, key, lock=True)


def find_dataset(connection: Connection, key: str, *, lock: bool = False) -> RowMapping | None:
    """Return a dataset's row, or None if there is none."""
    return connection.execute(_LOCKED_DATASET if lock else _DATASET, {"of_name": key}).mappings().first()


def dataset_row(connection: Connection, key: str, *, lock: bool = False) -> RowMapping:
    """Return a dataset's row; raises `UnknownDataset`."""
    row = find_dataset(connection, key, lock=lock)
    if row is None:
        raise unknown_dataset(connection, key)
    return row


def unknown_dataset(connection: Connection, key: str) -> UnknownDataset:
    """Return the error of a dataset that is missing, or another tenant's."""
    name, own = rows.dataset_name(key), rows.is_own(connection, schema.datasets.c.tenant)
    newest = (
        select(_datasets.name)
        .where(own, schema.KEPT_DATASETS)
        .order_by(_datasets.created_at.desc())
        .limit(_MOST_NEAR)
    )
    meant = did_you_mean(name, map(rows.dataset_name, connection.execute(newest).scalars()))
    return UnknownDataset(f"no dataset is named {name!r}{meant}; create it, or list those that exist")
