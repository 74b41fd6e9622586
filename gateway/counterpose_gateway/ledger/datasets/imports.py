"""Imports of datasets from a URL: asked for, and leased to those who find and read the shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, insert, select, update

from counterpose_core.contract.datasets import ImportCreate, Layout
from counterpose_core.errors import Cancelled, InvalidRequest, LeaseLost
from counterpose_gateway.ledger.database.engine import LedgerPart
from counterpose_gateway.ledger.database.lease_time import LeaseTime
from counterpose_gateway.ledger.datasets import import_states
from counterpose_gateway.ledger.datasets.datasets import locked_dataset
from counterpose_gateway.ledger.datasets.import_rows import (
    change,
    end_if_all_ended,
    fail_import,
    held,
    problem_of,
)
from counterpose_gateway.ledger.tables import rows, schema
from counterpose_gateway.records.imports import LeasedImport, LeasedListing, LeasedShard
from counterpose_gateway.records.items import MAX_ATTEMPTS

_imports = schema.imports.c
_shards = schema.import_shards.c
_OPEN = ("pending", "leased")


@dataclass(frozen=True)
class _Waiting:
    """An import whose shards are to be found, or one of its shards."""

    dataset: str
    ordinal: int | None = None


class Imports(LedgerPart):
    """The part of the ledger for imports.

    Every method that takes a lease raises LeaseLost if it is void: another process has it, or the import has
    ended.
    """

    _lease_time: LeaseTime

    def create_import(
        self, name: str, request: ImportCreate, layout: Layout, names: Sequence[str] | None = None
    ) -> None:
        """Let workers import the dataset ``name``, which exists, from a URL.

        The same request again changes nothing; if the import failed, it goes on with what is left.

        Raises:
            InvalidRequest: the dataset is imported from elsewhere, or has images that were uploaded.
            UnknownDataset: no dataset has this name.
        """
        asked, key = request.model_dump(mode="json"), self._key(name)
        with self._database.writing() as connection:
            dataset = locked_dataset(connection, key)
            known = import_states.import_row(connection, key, lock=True)
            if known is None and dataset["n_sources"]:
                raise InvalidRequest(
                    f"dataset {name!r} has images already; import into a new one", pointer="/url"
                )
            if known is None:
                connection.execute(insert(schema.imports).values(_new(key, asked, layout, names)))
            elif known["request"] != asked and known["state"] == "failed" and not dataset["n_sources"]:
                _replace(connection, key, asked, layout, names)
            elif known["request"] != asked:
                raise InvalidRequest(
                    f"dataset {name!r} is imported from {known['request']['url']!r} in another way; "
                    "choose another name",
                    pointer="/url",
                )
            elif known["state"] == "failed":
                _open_again(connection, known)

    def cancel_import(self, name: str) -> None:
        """Stop an import; what was taken in stays, and the same request goes on with the rest.

        One that has ended stays as it is.

        Raises:
            UnknownDataset: no dataset has this name.
        """
        key = self._key(name)
        with self._database.writing() as connection:
            locked_dataset(connection, key)
            known = import_states.import_row(connection, key, lock=True)
            if known is not None and known["state"] in import_states.GOING_ON:
                fail_import(connection, key, Cancelled(f"the import of dataset {name!r} was cancelled"))

    def import_ended(self, name: str) -> bool:
        """Return whether no import of the dataset goes on; True if it never had one."""
        with self._database.reading() as connection:
            row = import_states.import_row(connection, self._key(name))
        return row is None or row["state"] not in import_states.GOING_ON

    def require_imported(self, name: str) -> None:
        """Refuse a dataset whose import has not ended.

        Raises:
            DatasetNotReady: it goes on.
        """
        with self._database.reading() as connection:
            import_states.require_ended(connection, self._key(name))

    def lease_import(self, *, seconds: float, dataset: str | None = None) -> LeasedImport | None:
        """Lease the finding of an import's shards, or else the shard that waits longest, if any waits.

        ``dataset``: the only one to import; None for every one. What was leased ``MAX_ATTEMPTS`` times
        without recording anything fails instead.
        """

        def lease(connection: Connection, found: _Waiting) -> LeasedImport | None:
            if found.ordinal is None:
                return self._lease_listing(connection, found.dataset, seconds)
            return self._lease_shard(connection, found.dataset, found.ordinal, seconds)

        return self._lease_first(lambda connection: self._waiting_import(connection, dataset), lease)

    def renew_import(self, leased: LeasedImport, seconds: float) -> None:
        """Prolong the lease."""
        with self._database.writing() as connection:
            held(connection, leased)
            change(connection, leased, {"due_at": self._lease_time() + seconds})

    def release_import(self, leased: LeasedImport) -> None:
        """Give the lease back: a worker that stops cleanly costs no attempt."""
        with self._database.writing() as connection:
            row = held(connection, leased)
            free = {"due_at": 0.0, "fence": leased.fence + 1, "attempts": max(0, row["attempts"] - 1)}
            change(connection, leased, free | _PENDING if isinstance(leased, LeasedShard) else free)

    def _waiting_import(self, connection: Connection, only: str | None) -> _Waiting | None:
        return self._waiting_listing(connection, only) or self._waiting_shard(connection, only)

    def _waiting_listing(self, connection: Connection, only: str | None) -> _Waiting | None:
        query = select(_imports.dataset).where(
            _imports.state == "listing", _imports.due_at <= self._lease_time()
        )
        if only is not None:
            query = query.where(_imports.dataset == only)
        found = rows.first(connection, query.order_by(_imports.due_at, _imports.dataset))
        return None if found is None else _Waiting(found["dataset"])

    def _lease_listing(self, connection: Connection, found: str, seconds: float) -> LeasedListing | None:
        locked_dataset(connection, found)
        row = import_states.import_row(connection, found, lock=True)
        if row is None or row["state"] != "listing" or row["due_at"] > self._lease_time():
            return None
        if row["attempts"] >= MAX_ATTEMPTS:
            fail_import(connection, found, LeaseLost(_gave_up("list it")))
            return None
        leased = LeasedListing(
            dataset=found, request=ImportCreate.model_validate(row["request"]), layout=row["layout"],
            listed=row["listed"], mark=row["mark"], fence=row["fence"] + 1,
        )  # fmt: skip
        due = self._lease_time() + seconds
        change(connection, leased, {"fence": leased.fence, "attempts": row["attempts"] + 1, "due_at": due})
        return leased

    def _waiting_shard(self, connection: Connection, only: str | None) -> _Waiting | None:
        query = select(_shards.dataset, _shards.ordinal).where(
            schema.OPEN_SHARDS, _shards.due_at <= self._lease_time()
        )
        if only is not None:
            query = query.where(_shards.dataset == only)
        in_turn = (_shards.due_at, _shards.dataset, _shards.ordinal)
        found = rows.first(connection, query.order_by(*in_turn))
        return None if found is None else _Waiting(found["dataset"], found["ordinal"])

    def _lease_shard(
        self, connection: Connection, name: str, ordinal: int, seconds: float
    ) -> LeasedShard | None:
        dataset = locked_dataset(connection, name)
        mine = (_shards.dataset == name) & (_shards.ordinal == ordinal)
        row = rows.first(connection, select(schema.import_shards).where(mine).with_for_update())
        whole = import_states.import_row(connection, name)
        if row is None or whole is None or row["state"] not in _OPEN or row["due_at"] > self._lease_time():
            return None
        leased = _leased_shard(dataset, whole, row)
        values = {"state": "leased", "fence": leased.fence, "due_at": self._lease_time() + seconds}
        change(connection, leased, {**values, "attempts": row["attempts"] + 1})
        if row["attempts"] >= MAX_ATTEMPTS:
            gone = problem_of(LeaseLost(_gave_up(f"read {row['path']!r}")))
            change(connection, leased, {"state": "failed", "problem": gone})
            end_if_all_ended(connection, dataset)
            return None
        return leased


_PENDING = {"state": "pending"}


def _gave_up(what: str) -> str:
    return f"{MAX_ATTEMPTS} workers began to {what} and none came back"


def _leased_shard(dataset: RowMapping, whole: RowMapping, row: RowMapping) -> LeasedShard:
    classes = dataset["classes"] if dataset["fixed_classes"] else None
    return LeasedShard(
        dataset=dataset["name"],
        request=ImportCreate.model_validate(whole["request"]),
        layout=whole["layout"],
        names=whole["names"] or classes,
        classes=classes,
        fence=row["fence"] + 1,
        **{name: row[name] for name in ("ordinal", "path", "label", "files", "stamp", "position")},
    )


def _open_again(connection: Connection, known: RowMapping) -> None:
    mine = _shards.dataset == known["dataset"]
    left = mine & _shards.state.in_(("failed", "stopped"))
    again = {"state": "pending", "attempts": 0, "due_at": 0.0, "problem": None}
    again |= {"changes": 0, "fence": _shards.fence + 1}
    connection.execute(update(schema.import_shards).where(left).values(again))
    # The listing goes on behind its mark: if it had ended, it finds nothing more.
    values = {"state": "listing", "problem": None, "attempts": 0, "due_at": 0.0}
    connection.execute(
        update(schema.imports).where(_imports.dataset == known["dataset"]).values(values)
    )  # fmt: skip


def _new(name: str, asked: dict[str, Any], layout: Layout, names: Sequence[str] | None) -> dict[str, Any]:
    return {
        "dataset": name, "request": asked, "layout": layout, "state": "listing",
        "names": None if names is None else list(names), "listed": 0, "mark": None, "problem": None,
        "fence": 0, "attempts": 0, "due_at": 0.0,
    }  # fmt: skip


def _replace(
    connection: Connection, name: str, asked: dict[str, Any], layout: Layout, names: Sequence[str] | None
) -> None:
    """Begin another import where the first gave nothing, as from an address with a slip."""
    connection.execute(delete(schema.import_shards).where(_shards.dataset == name))
    connection.execute(delete(schema.imports).where(_imports.dataset == name))
    connection.execute(insert(schema.imports).values(_new(name, asked, layout, names)))
