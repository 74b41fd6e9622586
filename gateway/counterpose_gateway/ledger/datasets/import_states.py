"""How far the import of a dataset has come, read from its shards."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, func, select

from counterpose_core.contract.base import Problem
from counterpose_core.contract.datasets import DatasetImport, FailedShard, RejectedSource
from counterpose_core.errors import DatasetNotReady
from counterpose_gateway.ledger.tables import rows, schema

MOST_REJECTED = 100
"""Rejected files of an import that are listed; all are counted."""
MOST_FAILED_SHARDS = 20
GOING_ON = ("listing", "importing")

_imports = schema.imports.c
_shards = schema.import_shards.c


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
