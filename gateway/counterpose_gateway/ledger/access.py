"""Access: API keys by their digests, the log of what their holders changed, and what each tenant may use.

Use is counted in the transaction that records it, by the calendar month of UTC: a clock that is set back
counts to the month before, whose count is still there, so nothing renews twice.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress

from sqlalchemy import Connection, RowMapping, bindparam, delete, exists, func, insert, select, text, update
from sqlalchemy.exc import IntegrityError

from counterpose_core.contract.usage import Usage
from counterpose_core.errors import NotFound
from counterpose_gateway.ledger.blobs import stored_with
from counterpose_gateway.ledger.database.session import Session
from counterpose_gateway.ledger.tables import rows, schema, totals
from counterpose_gateway.records.access_keys import AccessEntry, AccessKey
from counterpose_gateway.records.tenants import DEFAULT_TENANT, Allowance, Quota, Used

_keys = schema.access_keys.c
_log = schema.access_log.c
_once = schema.idempotency_keys.c
_SIGN_OUT = "sign-out"
_CLAIM = "quota "
"""What is kept where keys of calls are, for a week at most: the numbers of sessions that were signed out, and
what calls that are under way claim of a tenant's quota, images and seconds as JSON."""
_LOGGED = ("holder", "method", "path", "status", "tenant")
_quotas = schema.tenant_quotas.c
_usage = schema.tenant_usage.c

# As text: both databases have it, and SQLAlchemy two names for it.
_ADD = text(
    "INSERT INTO tenant_usage (tenant, month, shard, images, gpu_seconds) "
    "VALUES (:tenant, :month, :shard, :images, :seconds) "
    "ON CONFLICT (tenant, month, shard) DO UPDATE SET images = tenant_usage.images + excluded.images, "
    "gpu_seconds = tenant_usage.gpu_seconds + excluded.gpu_seconds"
)

_QUOTA = select(_quotas.images, _quotas.gpu_seconds).where(_quotas.tenant == bindparam("of_tenant"))

_USED = select(
    func.coalesce(func.sum(_usage.images), 0), func.coalesce(func.sum(_usage.gpu_seconds), 0.0)
).where(_usage.tenant == bindparam("of_tenant"), _usage.month == bindparam("of_month"))


class Access:
    """Keys and quotas."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add_key(self, key: AccessKey) -> None:
        """Keep a new key, by its digest alone."""
        with self._session.writing() as connection:
            connection.execute(insert(schema.access_keys).values(_row(key)))

    def key(self, key_id: str) -> AccessKey | None:
        """Return a key, or None if there is none of this id."""
        with self._session.reading() as connection:
            row = rows.first(connection, select(schema.access_keys).where(_keys.id == key_id))
        return None if row is None else _key(row)

    def all_keys(self) -> list[AccessKey]:
        """Return all keys, also those that have ended, oldest first."""
        query = select(schema.access_keys).order_by(_keys.created_at, _keys.id)
        with self._session.reading() as connection:
            return [_key(row) for row in connection.execute(query).mappings()]

    def has_keys(self) -> bool:
        """Whether a key was ever made, whatever became of it."""
        with self._session.reading() as connection:
            return bool(connection.execute(select(exists().select_from(schema.access_keys))).scalar_one())

    def end_key(self, key: AccessKey, *others: AccessKey) -> None:
        """Keep when a key was revoked or ends, and new keys that follow it, in one transaction.

        Raises:
            NotFound: there is no key of this id.
        """
        ends = {"expires_at": _stamp(key.expires_at), "revoked_at": _stamp(key.revoked_at)}
        with self._session.writing() as connection:
            changed = connection.execute(update(schema.access_keys).where(_keys.id == key.id).values(ends))
            if changed.rowcount == 0:
                raise NotFound(f"there is no API key {key.id!r}")
            for other in others:
                connection.execute(insert(schema.access_keys).values(_row(other)))

    def end_session(self, number: str) -> None:
        """Remember that a browser's session was signed out, for longer than any lasts."""
        row = {"scope": _SIGN_OUT, "key": number, "fingerprint": "", "claimed_at": self._session.lease_time()}
        with suppress(IntegrityError), self._session.writing() as connection:
            connection.execute(insert(schema.idempotency_keys).values(row))

    def has_ended(self, number: str) -> bool:
        """Whether a browser's session was signed out."""
        query = select(exists().where(_once.scope == _SIGN_OUT, _once.key == number))
        with self._session.reading() as connection:
            return bool(connection.execute(query).scalar_one())

    def note(self, entry: AccessEntry) -> None:
        """Add an entry to the log; none is ever changed."""
        row = {
            "at": entry.at.timestamp(), "holder": entry.holder, "method": entry.method, "path": entry.path,
            "status": entry.status, "tenant": entry.tenant,
        }  # fmt: skip
        with self._session.writing() as connection:
            connection.execute(insert(schema.access_log).values(row))

    def log(self, most: int) -> Sequence[AccessEntry]:
        """Return the newest entries, newest first."""
        query = select(schema.access_log).order_by(_log.id.desc()).limit(most)
        with self._session.reading() as connection:
            return [
                AccessEntry(at=_moment(row["at"]), **{name: row[name] for name in _LOGGED})
                for row in connection.execute(query).mappings()
            ]

    def set_quota(self, tenant: str, most: Quota) -> None:
        """Let a tenant use so much in a month; without a bound it has no quota."""
        with self._session.writing() as connection:
            connection.execute(delete(schema.tenant_quotas).where(_quotas.tenant == tenant))
            if most != Quota():
                values = {"tenant": tenant, "images": most.images, "gpu_seconds": most.gpu_seconds}
                connection.execute(insert(schema.tenant_quotas).values(values))

    def quotas(self) -> Mapping[str, Quota]:
        """Return the quota of each tenant that has one, by name."""
        with self._session.reading() as connection:
            found = connection.execute(select(schema.tenant_quotas).order_by(_quotas.tenant)).all()
        return {row.tenant: Quota(row.images, row.gpu_seconds) for row in found}

    def allowance(self) -> Allowance:
        """Return what the tenant may use this month, and has used, to judge what it asks for."""
        with self._session.reading() as connection:
            return allowance(connection, self._owner, self._session.clock())

    def claim(self, images: int, seconds: float) -> str:
        """Claim what a request may use at most, beside what others have claimed; `settle` takes it back.

        ``seconds``: for which it may go on, and so the most GPU-seconds. A claim that is older is none.

        Raises:
            QuotaExceeded: too little is left.
        """
        owner, claim = self._owner, uuid.uuid4().hex
        with self._session.writing() as connection:
            # One request after the other, on PostgreSQL too.
            connection.execute(_QUOTA.with_for_update(), {"of_tenant": owner})
            allowed = allowance(connection, owner, self._session.clock())
            if allowed.most == Quota():
                return claim
            now = self._session.lease_time()
            query = select(_once.fingerprint).where(
                _once.scope == _CLAIM + owner, _once.claimed_at > now - seconds
            )
            for other in connection.execute(query).scalars():
                allowed = allowed.less(Used(*json.loads(other)))
            if (refusal := allowed.refusal(images)) is not None:
                raise refusal
            mine = json.dumps((images, min(seconds, allowed.gpu_seconds_left)))
            row = {"scope": _CLAIM + owner, "key": claim, "fingerprint": mine, "claimed_at": now}
            connection.execute(insert(schema.idempotency_keys).values(row))
        return claim

    def settle(self, claim: str, used: Used) -> None:
        """Count what the tenant used without a run, in the place of what it had claimed."""
        mine = delete(schema.idempotency_keys).where(_once.scope == _CLAIM + self._owner, _once.key == claim)
        with self._session.writing() as connection:
            connection.execute(mine)
            now = self._session.clock()
            add_usage(connection, self._owner, "", now, images=used.images, gpu_seconds=used.gpu_seconds)

    def usage(self, stored_quota: int | None = None) -> Usage:
        """Return what the tenant has used this month and has stored, and what it may.

        ``stored_quota``: the most bytes that it may store, which is a setting.
        """
        now = self._session.clock()
        with self._session.reading() as connection:
            spent, most = used(connection, self._owner, now), quota(connection, self._owner)
            stored = stored_with(connection, None, self._owner).all_bytes
        return Usage(
            tenant=self._owner, month=month_of(now), renews_at=renewal(now),
            images=spent.images, gpu_seconds=spent.gpu_seconds,
            images_quota=most.images, gpu_seconds_quota=most.gpu_seconds,
            stored_bytes=stored, stored_bytes_quota=stored_quota,
        )  # fmt: skip

    @property
    def _owner(self) -> str:
        return self._session.tenant or DEFAULT_TENANT


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


def add_usage(
    connection: Connection, tenant: str, run_id: str, now: float, *, images: int, gpu_seconds: float
) -> None:
    """Count what items of a run have used; the last lock that a transaction takes."""
    if not images and not gpu_seconds:
        return
    shard = zlib.crc32(run_id.encode()) % totals.SHARDS
    values = {"tenant": tenant, "month": month_of(now), "shard": shard}
    connection.execute(_ADD, {**values, "images": images, "seconds": gpu_seconds})


def used(connection: Connection, tenant: str, now: float) -> Used:
    """Return what a tenant has used in the month of ``now``."""
    images, seconds = connection.execute(_USED, {"of_tenant": tenant, "of_month": month_of(now)}).one()
    return Used(int(images), float(seconds))


def quota(connection: Connection, tenant: str) -> Quota:
    """Return what a tenant may use in a month."""
    row = connection.execute(_QUOTA, {"of_tenant": tenant}).first()
    return Quota() if row is None else Quota(row.images, row.gpu_seconds)


def allowance(connection: Connection, tenant: str, now: float) -> Allowance:
    """Return what a tenant may use in the month of ``now``, and has used."""
    most = quota(connection, tenant)
    # Each lease asks: without a quota nothing is summed up.
    so_far = Used() if most == Quota() else used(connection, tenant, now)
    return Allowance(tenant, most, so_far, renewal(now))


def month_of(now: float) -> str:
    """Return the month of UTC, such as ``2026-11``."""
    return dt.datetime.fromtimestamp(now, dt.UTC).strftime("%Y-%m")


def renewal(now: float) -> dt.datetime:
    """Return when the next month begins."""
    today = dt.datetime.fromtimestamp(now, dt.UTC)
    year, month = (today.year + 1, 1) if today.month == 12 else (today.year, today.month + 1)
    return dt.datetime(year, month, 1, tzinfo=dt.UTC)
