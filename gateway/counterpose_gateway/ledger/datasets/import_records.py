"""What imports record: shards that were found, parts of shards that were read, and failures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, RowMapping, insert, update

from counterpose_core.contract.datasets import RejectedSource
from counterpose_core.errors import CounterposeError, ShardUnreadable
from counterpose_gateway.ledger.database.engine import LedgerPart
from counterpose_gateway.ledger.database.lease_time import LeaseTime
from counterpose_gateway.ledger.datasets.datasets import locked_dataset, stored_with
from counterpose_gateway.ledger.datasets.import_rows import (
    change,
    end_if_all_ended,
    fail_import,
    held,
    problem_of,
)
from counterpose_gateway.ledger.datasets.sources import Added, add_sources, restate
from counterpose_gateway.ledger.tables import schema
from counterpose_gateway.records.imports import LeasedImport, LeasedListing, LeasedShard, NewShard
from counterpose_gateway.records.items import MAX_ATTEMPTS, RETRY_SECONDS
from counterpose_gateway.records.sources import NewSource, Stored

MOST_NOTED = 20
"""Rejected files that are noted of a shard; all are counted."""


class ImportRecords(LedgerPart):
    """The part of the ledger that an importer records in.

    Every method raises LeaseLost if the lease is void: another process has it, or the import ended.
    """

    _lease_time: LeaseTime

    def name_classes(self, leased: LeasedListing, names: Sequence[str]) -> None:
        """Fix the classes of the dataset, which the listing found; those of the request come first."""
        with self._database.writing() as connection:
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
        now = self._lease_time()
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
        with self._database.writing() as connection:
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
        with self._database.writing() as connection:
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
        with self._database.writing() as connection:
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

    def fail_part(self, leased: LeasedImport, error: CounterposeError, *, whole: bool) -> None:
        """Let a listing or a shard be tried again after a pause, or fail it if that would be useless.

        ``whole``: whether the import fails with it, as it does with a listing.
        """
        with self._database.writing() as connection:
            dataset = locked_dataset(connection, leased.dataset)
            row = held(connection, leased)
            if error.retryable and row["attempts"] < MAX_ATTEMPTS and not _keeps_changing(leased, row):
                due = self._lease_time() + RETRY_SECONDS * 2 ** max(0, row["attempts"] - 1)
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
