"""Idempotency keys of calls that make no run: claim a key, answer the call, replay the answer."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from counterpose_core.errors import IdempotencyInFlight
from counterpose_gateway.ledger.database.session import Session
from counterpose_gateway.ledger.tables import rows, schema

CLAIM_SECONDS = 60.0
"""A claim older than this belongs to a call that died; the next one takes it over."""

KEEP_SECONDS = 7 * 24 * 3600.0
_keys = schema.idempotency_keys.c


@dataclass(frozen=True)
class StoredAnswer:
    """The answer of the first call with a key."""

    status: int
    body: str


class Idempotency:
    """Makes repeated POSTs harmless; each tenant has keys of its own."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def claim(self, scope: str, key: str, fingerprint: str) -> StoredAnswer | None:
        """Claim ``key`` for this call, or return the answer of the first call with it.

        Raises:
            IdempotencyConflict: the key was used with another ``fingerprint``.
            IdempotencyInFlight: the first call has not answered yet.
        """
        row = {
            "scope": self._scope(scope), "key": key, "fingerprint": fingerprint,
            "claimed_at": self._session.lease_time(),
        }  # fmt: skip
        # Calls with keys sweep old ones: a separate job could stop unnoticed.
        self._forget_old()
        try:
            with self._session.writing() as connection:
                connection.execute(insert(schema.idempotency_keys).values(row))
        except IntegrityError:
            return self._known(self._scope(scope), key, fingerprint)
        return None

    def answer(self, scope: str, key: str, answer: StoredAnswer) -> None:
        """Keep the answer for repetitions."""
        values = {"status": answer.status, "body": answer.body}
        with self._session.writing() as connection:
            connection.execute(
                update(schema.idempotency_keys).where(_is(self._scope(scope), key)).values(values)
            )

    def forget(self, scope: str, key: str) -> None:
        """Drop a claim whose call failed, so that a retry does the work again."""
        with self._session.writing() as connection:
            connection.execute(delete(schema.idempotency_keys).where(_is(self._scope(scope), key)))

    def _scope(self, scope: str) -> str:
        return rows.request_key(self._session.tenant, scope)

    def _known(self, scope: str, key: str, fingerprint: str) -> StoredAnswer | None:
        with self._session.writing() as connection:
            query = select(schema.idempotency_keys).where(_is(scope, key))
            row = rows.first(connection, query.with_for_update())
            if row is None:
                raise IdempotencyInFlight(
                    f"the first call with the idempotency key {key!r} has just failed; retry"
                )
            rows.require_same_body(row, key, fingerprint)
            if row["status"] is not None:
                return StoredAnswer(status=row["status"], body=row["body"])
            # A call that died left its claim behind; its work is safe to repeat.
            if row["claimed_at"] > self._session.lease_time() - CLAIM_SECONDS:
                raise rows.in_flight(key)
            mine = (
                update(schema.idempotency_keys)
                .where(_is(scope, key))
                .values(claimed_at=self._session.lease_time())
            )
            connection.execute(mine)
        return None

    def _forget_old(self) -> None:
        with self._session.writing() as connection:
            old = _keys.claimed_at < self._session.lease_time() - KEEP_SECONDS
            connection.execute(delete(schema.idempotency_keys).where(old))


def _is(scope: str, key: str) -> ColumnElement[bool]:
    return and_(_keys.scope == scope, _keys.key == key)
