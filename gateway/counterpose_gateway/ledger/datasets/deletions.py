"""Delete datasets, at once or at their end; their images go when nothing names them any more."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress

from sqlalchemy import Connection, RowMapping, String, cast, delete, insert, or_, select

from counterpose_core.errors import DatasetNotReady, UnknownDataset
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.ledger.blobs import charge, loosen
from counterpose_gateway.ledger.database.session import Session
from counterpose_gateway.ledger.datasets import import_rows
from counterpose_gateway.ledger.datasets.import_rows import locked_dataset
from counterpose_gateway.ledger.tables import rows, schema
from counterpose_gateway.records.pace import in_chunks, never
from counterpose_gateway.records.sources import LEAVING_SECONDS

DELETED_AT_ONCE = 1_000
_ends = schema.dataset_ends.c
_sources = schema.sources.c
_shards = schema.import_shards.c
_runs = schema.runs.c


def delete_dataset(session: Session, key: str) -> None:
    """Delete the dataset of a key as `Datasets.delete` says."""
    with session.writing() as connection:
        row = locked_dataset(connection, key)
        import_rows.require_ended(connection, key)
        _require_unused(connection, row)
        connection.execute(delete(schema.dataset_ends).where(_ends.dataset == key))
        connection.execute(insert(schema.dataset_ends).values(dataset=key, deleting=True))
    _delete_rest(session, key)


def expire(session: Session) -> int:
    """Delete datasets as `Datasets.expire` says, and forget bytes that are gone."""
    gone = (schema.kept_bytes.c.until > 0) & (schema.kept_bytes.c.until <= session.clock())
    with session.reading() as connection:
        any_gone = rows.first(connection, select(schema.kept_bytes).where(gone)) is not None
    if any_gone:
        with session.writing() as connection:
            connection.execute(delete(schema.kept_bytes).where(gone))
    due = select(_ends.dataset).where(_ends.expires_at <= session.clock(), ~_ends.deleting)
    with session.reading() as connection:
        found = connection.execute(due).scalars().all()
    deleted = 0
    for key in found:
        with suppress(DatasetNotReady, UnknownDataset):
            delete_dataset(session, key)
            deleted += 1
    return deleted


def go_on(session: Session, stopped: Callable[[], bool] = never) -> None:
    """Go on with deletions as `Datasets.go_on_deleting` says."""
    with session.reading() as connection:
        keys = connection.execute(select(_ends.dataset).where(_ends.deleting)).scalars().all()
    for key in keys:
        _delete_rest(session, key, stopped)


def _delete_rest(session: Session, key: str, stopped: Callable[[], bool] = never) -> None:
    def delete_chunk(size: int) -> tuple[int, float]:
        with session.erasing() as connection:
            start = time.perf_counter()
            some = select(_sources.ordinal, _sources.image, _sources.mask).where(_sources.dataset == key)
            found = connection.execute(some.order_by(_sources.ordinal).limit(size)).all()
            if found:
                loosen(
                    connection,
                    session.clock(),
                    [ref for row in found for ref in (row.image, row.mask) if ref],
                )
                mine = (_sources.dataset == key) & (_sources.ordinal <= found[-1].ordinal)
                connection.execute(delete(schema.sources).where(mine))
            return len(found), time.perf_counter() - start

    in_chunks(delete_chunk, DELETED_AT_ONCE, stopped=stopped)
    if stopped():
        return
    with session.erasing() as connection:
        row = rows.first(connection, select(schema.datasets).where(schema.datasets.c.name == key))
        if row is None or _is_wanted(connection, key):
            return
        connection.execute(delete(schema.import_shards).where(_shards.dataset == key))
        connection.execute(delete(schema.imports).where(schema.imports.c.dataset == key))
        connection.execute(delete(schema.datasets).where(schema.datasets.c.name == key))
        # Its images are in the store for a while: who fills and deletes datasets has them all.
        charge(connection, row["tenant"], row["stored_bytes"], session.clock() + LEAVING_SECONDS)
        connection.execute(delete(schema.dataset_ends).where(_ends.dataset == key))
        _forget_answers(connection, row)


def _is_wanted(connection: Connection, key: str) -> bool:
    """Whether the dataset of a key is not being deleted any more: it was, and is another one now."""
    going = select(_ends.dataset).where(_ends.dataset == key, _ends.deleting)
    return rows.first(connection, going) is None


def _require_unused(connection: Connection, row: RowMapping) -> None:
    name = rows.dataset_name(row["name"])
    # A shift benchmark names several datasets, in its configuration alone.
    named = cast(_runs.config, String).contains(json.dumps(name), autoescape=True)
    about = or_(_runs.dataset == name, named)
    going_on = _runs.state.not_in([*FINAL_RUN_STATES, "deleting"])
    query = select(_runs.id).where(_runs.tenant == row["tenant"], going_on, about).limit(1)
    run = connection.execute(query).scalar()
    if run is not None:
        raise DatasetNotReady(
            f"dataset {name!r} is used by run {run!r}, which has not ended; cancel it, or wait for its end"
        )


def _forget_answers(connection: Connection, row: RowMapping) -> None:
    """Forget kept answers of uploads, which name files."""
    name, keys = rows.dataset_name(row["name"]), schema.idempotency_keys
    scopes = [
        rows.request_key(row["tenant"], scope)
        for scope in ("datasets", f"datasets/{name}/sources", f"datasets/{name}/import")
    ]
    mine = keys.c.scope.in_(scopes[1:])
    # Answers of the creation of all datasets share a scope.
    made = (keys.c.scope == scopes[0]) & keys.c.body.contains(f'"name":{json.dumps(name)}', autoescape=True)
    connection.execute(delete(keys).where(or_(mine, made)))
