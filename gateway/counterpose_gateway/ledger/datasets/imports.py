"""Imports of datasets from a URL: asked for, leased to those who find and read the shards, and recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, insert, select, update

from counterpose_core.contract.datasets import ImportCreate, Layout, RejectedSource
from counterpose_core.errors import Cancelled, CounterposeError, InvalidRequest, LeaseLost, ShardUnreadable
from counterpose_gateway.ledger.blobs import stored_with
from counterpose_gateway.ledger.database.session import Session
from counterpose_gateway.ledger.datasets import import_rows
from counterpose_gateway.ledger.datasets.import_rows import (
    change,
    end_if_all_ended,
    fail_import,
    held,
    locked_dataset,
    problem_of,
)
from counterpose_gateway.ledger.datasets.import_turns import Waiting, waiting_import
from counterpose_gateway.ledger.datasets.sources import Added, add_sources, restate
from counterpose_gateway.ledger.tables import rows, schema
from counterpose_gateway.records.imports import LeasedImport, LeasedListing, LeasedShard, NewShard
from counterpose_gateway.records.items import MAX_ATTEMPTS, RETRY_SECONDS
from counterpose_gateway.records.sources import NewSource, Stored

_imports = schema.imports.c
_shards = schema.import_shards.c
_OPEN = ("pending", "leased")


_PENDING = {"state": "pending"}

MOST_NOTED = 20
"""Rejected files that are noted of a shard; all are counted."""


class Imports:
    """Imports of datasets.

    Every method that takes a lease raises LeaseLost if it is void: another process has it, or the import has
    ended.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def create(
        self, name: str, request: ImportCreate, layout: Layout, names: Sequence[str] | None = None
    ) -> None:
        """Let workers import the dataset ``name``, which exists, from a URL.

        The same request again changes nothing; if the import failed, it goes on with what is left.

        Raises:
            InvalidRequest: the dataset is imported from elsewhere, or has images that were uploaded.
            UnknownDataset: no dataset has this name.
        """
        asked, key = request.model_dump(mode="json"), self._session.key(name)
        with self._session.writing() as connection:
            dataset = locked_dataset(connection, key)
            known = import_rows.import_row(connection, key, lock=True)
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

    def cancel(self, name: str) -> None:
        """Stop an import; what was taken in stays, and the same request goes on with the rest.

        One that has ended stays as it is.

        Raises:
            UnknownDataset: no dataset has this name.
        """
        key = self._session.key(name)
        with self._session.writing() as connection:
            locked_dataset(connection, key)
            known = import_rows.import_row(connection, key, lock=True)
            if known is not None and known["state"] in import_rows.GOING_ON:
                fail_import(connection, key, Cancelled(f"the import of dataset {name!r} was cancelled"))

    def has_ended(self, name: str) -> bool:
        """Return whether no import of the dataset goes on; True if it never had one."""
        with self._session.reading() as connection:
            row = import_rows.import_row(connection, self._session.key(name))
        return row is None or row["state"] not in import_rows.GOING_ON

    def require_ended(self, name: str) -> None:
        """Refuse a dataset whose import has not ended.

        Raises:
            DatasetNotReady: it goes on.
        """
        with self._session.reading() as connection:
            import_rows.require_ended(connection, self._session.key(name))

    def lease(
        self, *, seconds: float, dataset: str | None = None, last: str | None = None
    ) -> LeasedImport | None:
        """Lease the finding of an import's shards, or else the shard that waits longest, if any waits.

        Tenants take turns: whoever leases one import after another names the dataset of the ``last`` one, and
        the next is one of another tenant, if another has any.

        ``dataset``: the only one to import; None for every one. What was leased ``MAX_ATTEMPTS`` times
        without recording anything fails instead.
        """

        def lease(connection: Connection, waiting: Waiting) -> LeasedImport | None:
            if waiting.ordinal is None:
                return self._lease_listing(connection, waiting.dataset, seconds)
            return self._lease_shard(connection, waiting.dataset, waiting.ordinal, seconds)

        now = self._session.lease_time
        return self._session.lease_first(
            lambda connection: waiting_import(connection, now(), dataset, last), lease
        )

    def renew(self, leased: LeasedImport, seconds: float) -> None:
        """Prolong the lease."""
        with self._session.writing() as connection:
            held(connection, leased)
            change(connection, leased, {"due_at": self._session.lease_time() + seconds})

    def release(self, leased: LeasedImport) -> None:
        """Give the lease back: a worker that stops cleanly costs no attempt."""
        with self._session.writing() as connection:
            row = held(connection, leased)
            free = {"due_at": 0.0, "fence": leased.fence + 1, "attempts": max(0, row["attempts"] - 1)}
            change(connection, leased, free | _PENDING if isinstance(leased, LeasedShard) else free)

    def name_classes(self, leased: LeasedListing, names: Sequence[str]) -> None:
        """Fix the classes of the dataset, which the listing found; those of the request come first."""
        with self._session.writing() as connection:
            dataset = locked_dataset(connection, leased.dataset)
            row = held(connection, leased)
            if row["names"] is None and not dataset["fixed_classes"]:
                change(connection, leased, {"names": list(names)})
                mine = schema.datasets.c.name == leased.dataset
                fixed = {"classes": list(names), "fixed_classes": 1, "digest": ""}
                connection.execute(update(schema.datasets).where(mine).values(fixed))

    def add_shards(self, leased: LeasedListing, shards: Sequence[NewShard], *, last: bool) -> LeasedListing:
        """Store some more shards; after the ``last`` ones the listing has ended."""
        # In the order in which they are found: an import does not wait for those that were asked for later.
        now = self._session.lease_time()
        new = [
            {
                "dataset": leased.dataset, "ordinal": leased.listed + number, "path": shard.path,
                "label": shard.label, "files": None if shard.files is None else list(shard.files),
                "state": "pending", "fence": 0, "attempts": 0, "due_at": now, "position": 0, "taken": 0,
                "rejected": 0,
            }
            for number, shard in enumerate(shards)
        ]  # fmt: skip
        listed = leased.listed + len(new)
        mark = shards[-1].mark if shards else leased.mark
        with self._session.writing() as connection:
            dataset = locked_dataset(connection, leased.dataset)
            held(connection, leased)
            if new:
                connection.execute(insert(schema.import_shards), new)
            change(connection, leased, {"listed": listed, "mark": mark, "attempts": 0})
            if last:
                change(connection, leased, {"state": "importing", "due_at": 0.0})
                end_if_all_ended(connection, dataset)
        return replace(leased, listed=listed, mark=mark)

    def restart_shard(self, leased: LeasedShard, stamp: str) -> LeasedShard:
        """Read a shard from its beginning, as it is now; images that were taken in stay.

        Raises:
            ShardUnreadable: it was found changed ``MAX_ATTEMPTS`` times before.
        """
        anew = {
            "stamp": stamp, "position": 0, "taken": 0, "rejected": 0, "rejections": None, "problem": None
        }  # fmt: skip
        with self._session.writing() as connection:
            row = held(connection, leased)
            # It begins anew each time, so that what it records is no sign that it will end.
            if _keeps_changing(leased, row):
                raise ShardUnreadable(
                    f"the shard {leased.path!r} was changed {row['changes']} times while it was imported; "
                    "import it when nobody writes to it"
                )
            changes = row["changes"] + (row["stamp"] is not None)
            change(connection, leased, anew | {"changes": changes})
        return replace(leased, stamp=stamp, position=0)

    def record_part(
        self,
        leased: LeasedShard,
        sources: Sequence[NewSource],
        rejected: Sequence[RejectedSource],
        *,
        position: int,
        last: bool,
        known: Sequence[str] | None = None,
        check: Callable[[Stored], None] | None = None,
    ) -> bool:
        """Record what a part of a shard held, all in one transaction.

        Args:
            leased: the lease.
            sources: the images that were taken in.
            rejected: the files that were not.
            position: where the next part begins.
            last: whether the shard ends here.
            known: the classes of the dataset that the labels were compared with.
            check: may refuse all by raising: it is given what is stored with them.

        Returns:
            False if the dataset has other classes than ``known`` by now; nothing is recorded then.
        """
        with self._session.writing() as connection:
            dataset = locked_dataset(connection, leased.dataset)
            shard = held(connection, leased)
            if known is not None and list(known) != list(dataset["classes"]):
                return False
            added = _added(connection, dataset, sources, check)
            restate(connection, dataset, added)
            noted = [*(shard["rejections"] or ()), *(one.model_dump(exclude_none=True) for one in rejected)]
            values: dict[str, Any] = {
                "position": position, "taken": shard["taken"] + len(sources), "attempts": 0,
                "rejected": shard["rejected"] + len(rejected), "rejections": noted[:MOST_NOTED] or None,
            }  # fmt: skip
            if last:
                values |= {"state": "done", "problem": None}
            change(connection, leased, values)
            if last:
                end_if_all_ended(connection, dataset)
        return True

    def fail(self, leased: LeasedImport, error: CounterposeError, *, whole: bool) -> None:
        """Let a listing or a shard be tried again after a pause, or fail it if that would be useless.

        ``whole``: whether the import fails with it, as it does with a listing.
        """
        with self._session.writing() as connection:
            dataset = locked_dataset(connection, leased.dataset)
            row = held(connection, leased)
            if error.retryable and row["attempts"] < MAX_ATTEMPTS and not _keeps_changing(leased, row):
                due = self._session.lease_time() + RETRY_SECONDS * 2 ** max(0, row["attempts"] - 1)
                again: dict[str, Any] = {"due_at": due, "fence": leased.fence + 1}
                change(
                    connection,
                    leased,
                    again | ({"state": "pending"} if isinstance(leased, LeasedShard) else {}),
                )
                return
            if isinstance(leased, LeasedShard):
                change(connection, leased, {"state": "failed", "problem": problem_of(error)})
            if whole or not isinstance(leased, LeasedShard):
                fail_import(connection, leased.dataset, error)
            else:
                end_if_all_ended(connection, dataset)

    def _lease_listing(self, connection: Connection, found: str, seconds: float) -> LeasedListing | None:
        locked_dataset(connection, found)
        row = import_rows.import_row(connection, found, lock=True)
        if row is None or row["state"] != "listing" or row["due_at"] > self._session.lease_time():
            return None
        if row["attempts"] >= MAX_ATTEMPTS:
            fail_import(connection, found, LeaseLost(_gave_up("list it")))
            return None
        leased = LeasedListing(
            dataset=found, request=ImportCreate.model_validate(row["request"]), layout=row["layout"],
            listed=row["listed"], mark=row["mark"], fence=row["fence"] + 1,
        )  # fmt: skip
        due = self._session.lease_time() + seconds
        change(connection, leased, {"fence": leased.fence, "attempts": row["attempts"] + 1, "due_at": due})
        return leased

    def _lease_shard(
        self, connection: Connection, name: str, ordinal: int, seconds: float
    ) -> LeasedShard | None:
        dataset = locked_dataset(connection, name)
        mine = (_shards.dataset == name) & (_shards.ordinal == ordinal)
        row = rows.first(connection, select(schema.import_shards).where(mine).with_for_update())
        whole = import_rows.import_row(connection, name)
        if (
            row is None
            or whole is None
            or row["state"] not in _OPEN
            or row["due_at"] > self._session.lease_time()
        ):
            return None
        leased = _leased_shard(dataset, whole, row)
        values = {"state": "leased", "fence": leased.fence, "due_at": self._session.lease_time() + seconds}
        change(connection, leased, {**values, "attempts": row["attempts"] + 1})
        if row["attempts"] >= MAX_ATTEMPTS:
            gone = problem_of(LeaseLost(_gave_up(f"read {row['path']!r}")))
            change(connection, leased, {"state": "failed", "problem": gone})
            end_if_all_ended(connection, dataset)
            return None
        return leased


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


def _keeps_changing(leased: LeasedImport, row: RowMapping) -> bool:
    return isinstance(leased, LeasedShard) and row["changes"] >= MAX_ATTEMPTS


def _added(
    connection: Connection,
    dataset: RowMapping,
    sources: Sequence[NewSource],
    check: Callable[[Stored], None] | None,
) -> Added:
    added = add_sources(connection, dataset, sources)
    if check is not None and added.sources:
        check(stored_with(connection, dataset).plus(len(added.sources), added.size))
    return added
