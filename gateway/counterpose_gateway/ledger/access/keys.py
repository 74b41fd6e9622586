"""API keys by their digests, and the log of what their holders changed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from sqlalchemy import RowMapping, exists, insert, select, update

from counterpose_core.errors import NotFound
from counterpose_gateway.ledger.database.engine import LedgerPart
from counterpose_gateway.ledger.tables import rows
from counterpose_gateway.ledger.tables import schema as tables
from counterpose_gateway.records.access_keys import AccessEntry, AccessKey

_keys = tables.access_keys.c
_log = tables.access_log.c


class AccessKeys(LedgerPart):
    """The part of the ledger that knows keys and keeps the log of changes."""

    def add_access_key(self, key: AccessKey) -> None:
        """Keep a new key, by its digest alone."""
        with self._database.writing() as connection:
            connection.execute(insert(tables.access_keys).values(_row(key)))

    def access_key(self, key_id: str) -> AccessKey | None:
        """Return a key, or None if there is none of this id."""
        with self._database.reading() as connection:
            row = rows.first(connection, select(tables.access_keys).where(_keys.id == key_id))
        return None if row is None else _key(row)

    def access_keys(self) -> list[AccessKey]:
        """Return all keys, also those that have ended, oldest first."""
        query = select(tables.access_keys).order_by(_keys.created_at, _keys.id)
        with self._database.reading() as connection:
            return [_key(row) for row in connection.execute(query).mappings()]

    def has_access_keys(self) -> bool:
        """Whether a key was ever made, whatever became of it."""
        with self._database.reading() as connection:
            return bool(connection.execute(select(exists().select_from(tables.access_keys))).scalar_one())

    def end_access_key(self, key: AccessKey, *others: AccessKey) -> None:
        """Keep when a key was revoked or ends, and new keys that follow it, in one transaction.

        Raises:
            NotFound: there is no key of this id.
        """
        ends = {"expires_at": _stamp(key.expires_at), "revoked_at": _stamp(key.revoked_at)}
        with self._database.writing() as connection:
            changed = connection.execute(update(tables.access_keys).where(_keys.id == key.id).values(ends))
            if changed.rowcount == 0:
                raise NotFound(f"there is no API key {key.id!r}")
            for other in others:
                connection.execute(insert(tables.access_keys).values(_row(other)))

    def note_access(self, entry: AccessEntry) -> None:
        """Add an entry to the log; none is ever changed."""
        row = {
            "at": entry.at.timestamp(), "holder": entry.holder, "method": entry.method, "path": entry.path,
            "status": entry.status, "tenant": entry.tenant,
        }  # fmt: skip
        with self._database.writing() as connection:
            connection.execute(insert(tables.access_log).values(row))

    def access_log(self, most: int) -> Sequence[AccessEntry]:
        """Return the newest entries, newest first."""
        query = select(tables.access_log).order_by(_log.id.desc()).limit(most)
        with self._database.reading() as connection:
            return [
                AccessEntry(
                    _moment(row["at"]),
                    row["holder"],
                    row["method"],
                    row["path"],
                    row["status"],
                    row["tenant"],
                )
                for row in connection.execute(query).mappings()
            ]


def _row(key: AccessKey) -> dict[str, object]:
    return {
        "id": key.id, "name": key.name, "digest": key.digest, "scopes": list(key.scopes),
        "created_at": key.created_at.timestamp(), "expires_at": _stamp(key.expires_at),
        "revoked_at": _stamp(key.revoked_at), "tenant": key.tenant,
    }  # fmt: skip


def _key(row: RowMapping) -> AccessKey:
    return AccessKey(
        row["id"], row["name"], tuple(row["scopes"]), _moment(row["created_at"]),
        None if row["expires_at"] is None else _moment(row["expires_at"]),
        None if row["revoked_at"] is None else _moment(row["revoked_at"]),
        row["digest"], row["tenant"],
    )  # fmt: skip


def _stamp(moment: dt.datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def _moment(stamp: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(stamp, dt.UTC)
