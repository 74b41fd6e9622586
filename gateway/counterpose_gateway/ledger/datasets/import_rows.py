"""The rows of an import under a lease: held, changed, and ended when no shard is left."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, RowMapping, func, select, update

from counterpose_core.contract.base import Problem
from counterpose_core.errors import CounterposeError, DatasetEmpty, LeaseLost, error_for
from counterpose_gateway.ledger.datasets import import_states
from counterpose_gateway.ledger.tables import rows, schema
from counterpose_gateway.records.imports import LeasedImport, LeasedShard

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
    known = import_states.of_dataset(connection, name)
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
