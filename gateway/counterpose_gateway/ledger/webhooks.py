"""Webhooks, and the outbox: a message to each, written in the transaction that ends a run.

So there is a message exactly if the run has ended. Gateways deliver them later, under leases; a message of a
gateway that was killed is delivered by another, and may then arrive twice, with the same id.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, RowMapping, bindparam, delete, func, insert, select, update

from counterpose_core.contract.webhooks import (
    MOST_WEBHOOKS,
    DeliveryFailure,
    EndedRun,
    Webhook,
    WebhookCreate,
    WebhookCreated,
    WebhookDelivery,
    WebhookEvent,
    WebhookList,
    WebhookMessage,
)
from counterpose_core.errors import NotFound, QuotaExceeded
from counterpose_gateway.ledger.database.session import Session
from counterpose_gateway.ledger.tables import rows, schema
from counterpose_gateway.records.deliveries import LeasedDelivery
from counterpose_gateway.records.tenants import DEFAULT_TENANT

SECRET_BYTES = 32

SHOWN = 20
"""Messages that a webhook shows, the newest."""

KEPT_SECONDS = 7 * 86400.0
"""How long a message is kept that needs no further try."""

_EVENTS: Mapping[str, WebhookEvent] = {
    "completed": "run.completed", "completed_with_failures": "run.completed", "failed": "run.failed",
}  # fmt: skip
"""Events by the state in which a run ends; whoever cancels a run knows it."""

_deliveries = schema.deliveries.c
_LEASED = ("id", "message", "event", "run_id", "body", "attempts", "fence")

# Shared: a webhook that is deleted meanwhile must not let the transaction fail that ends the run.
_HOOKS = (
    select(schema.webhooks.c.id, schema.webhooks.c.events)
    .where(schema.webhooks.c.tenant == bindparam("of_tenant"))
    .with_for_update(read=True, key_share=True)
)


class Webhooks:
    """Webhooks and the messages to them."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def create(self, body: WebhookCreate) -> WebhookCreated:
        """Make a webhook durable and return it with its secret.

        Raises:
            QuotaExceeded: there are `MOST_WEBHOOKS`.
        """
        secret = f"whsec_{base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()}"
        webhook_id = secrets.token_hex(16)
        row = {
            "id": webhook_id, "url": body.url, "events": body.events, "secret": secret,
            "created_at": self._session.clock(), "tenant": self._session.tenant or DEFAULT_TENANT,
        }  # fmt: skip
        with self._session.writing() as connection:
            mine = rows.is_own(connection, schema.webhooks.c.tenant)
            count = select(func.count()).select_from(schema.webhooks).where(mine)
            known = connection.execute(count).scalar_one()
            if known >= MOST_WEBHOOKS:
                raise QuotaExceeded(f"there are {known} webhooks, the most there may be; delete one first")
            connection.execute(insert(schema.webhooks).values(row))
            made = _webhook(_row(connection, webhook_id))
        return WebhookCreated(**made.model_dump(), secret=secret)

    def all(self) -> WebhookList:
        """Return all webhooks, oldest first."""
        query = select(schema.webhooks).order_by(schema.webhooks.c.created_at, schema.webhooks.c.id)
        with self._session.reading() as connection:
            query = query.where(rows.is_own(connection, schema.webhooks.c.tenant))
            return WebhookList(webhooks=[_webhook(row) for row in connection.execute(query).mappings()])

    def get(self, webhook_id: str) -> Webhook:
        """Return a webhook with its newest messages; raises `NotFound`."""
        newest = select(schema.deliveries).where(schema.deliveries.c.webhook_id == webhook_id)
        newest = newest.order_by(schema.deliveries.c.id.desc()).limit(SHOWN)
        with self._session.reading() as connection:
            found = _webhook(_row(connection, webhook_id))
            told = [_delivery(row) for row in connection.execute(newest).mappings()]
        return found.model_copy(update={"deliveries": told})

    def delete(self, webhook_id: str) -> None:
        """Delete a webhook and its messages, those that wait too; raises `NotFound`."""
        with self._session.writing() as connection:
            # Locked: a run that ends meanwhile either finds it gone, or has its message deleted with it.
            _row(connection, webhook_id, locked=True)
            connection.execute(delete(schema.deliveries).where(schema.deliveries.c.webhook_id == webhook_id))
            connection.execute(delete(schema.webhooks).where(schema.webhooks.c.id == webhook_id))

    def lease(self, *, seconds: float, most: int, without: Collection[str] = ()) -> Sequence[LeasedDelivery]:
        """Lease messages that are due, those that have waited longest first; ``without`` names tenants."""
        due = select(_deliveries.id).where(
            schema.PENDING_DELIVERIES, _deliveries.due_at <= self._session.lease_time()
        )
        if without:
            theirs = select(schema.webhooks.c.id).where(schema.webhooks.c.tenant.in_(without))
            due = due.where(_deliveries.webhook_id.not_in(theirs))
        due = due.order_by(_deliveries.due_at).limit(most)
        # Idle gateways ask each second; without work they must not queue for the write lock.
        with self._session.reading() as connection:
            if connection.execute(due).first() is None:
                return []
        with self._session.writing() as connection:
            ids = connection.execute(due.with_for_update(skip_locked=True)).scalars().all()
            held = {
                "attempts": _deliveries.attempts + 1, "fence": _deliveries.fence + 1,
                "due_at": self._session.lease_time() + seconds,
            }  # fmt: skip
            connection.execute(update(schema.deliveries).where(_deliveries.id.in_(ids)).values(held))
            query = select(
                *(_deliveries[name] for name in _LEASED),
                schema.webhooks.c.url, schema.webhooks.c.secret, schema.webhooks.c.tenant,
            ).join_from(schema.deliveries, schema.webhooks)  # fmt: skip
            found = connection.execute(query.where(_deliveries.id.in_(ids)).order_by(_deliveries.id))
            return [LeasedDelivery(**row) for row in found.mappings()]

    def delivered(self, leased: LeasedDelivery) -> None:
        """Note that the target took a message; without effect if the lease is lost."""
        self._conclude(leased, {"state": "delivered", "delivered_at": self._session.clock()})

    def withdraw(self, leased: LeasedDelivery) -> None:
        """Take a message back that turns out to tell nothing; without effect if the lease is lost."""
        mine = (_deliveries.id == leased.id) & (_deliveries.fence == leased.fence)
        with self._session.writing() as connection:
            connection.execute(delete(schema.deliveries).where(mine))

    def not_delivered(
        self, leased: LeasedDelivery, failure: DeliveryFailure, detail: str, again_in: float | None
    ) -> None:
        """Note why a try failed, and when the next is due; None for no further one."""
        told: dict[str, Any] = {"failure": failure, "detail": detail}
        if again_in is None:
            self._conclude(leased, told | {"state": "failed"})
        else:
            self._conclude(leased, told | {"due_at": self._session.lease_time() + again_in})

    def _conclude(self, leased: LeasedDelivery, values: Mapping[str, Any]) -> None:
        old = _deliveries.created_at < self._session.clock() - KEPT_SECONDS
        # The fence goes up with each lease: a gateway that was too slow writes nothing.
        mine = (_deliveries.id == leased.id) & (_deliveries.fence == leased.fence)
        with self._session.writing() as connection:
            connection.execute(
                update(schema.deliveries).where(mine).values({"failure": None, "detail": None, **values})
            )
            connection.execute(delete(schema.deliveries).where(old, _deliveries.state != "pending"))


def tell_end(connection: Connection, run: Mapping[str, Any]) -> None:
    """Write messages about a locked run that has just ended, for its tenant's webhooks that want them.

    Args:
        connection: the transaction that ends it.
        run: its row, as it is now.
    """
    told = _events_of(run)
    if not told:
        return
    hooks = connection.execute(_HOOKS, {"of_tenant": run["tenant"]})
    wanted = [(hook_id, event) for hook_id, events in hooks for event in told if event in events]
    if not wanted:
        return
    bodies = {event: _body(event, run) for event in told}
    connection.execute(
        insert(schema.deliveries),
        [
            {
                "message": f"msg_{secrets.token_hex(16)}", "webhook_id": hook_id, "run_id": run["id"],
                "event": event, "body": bodies[event], "state": "pending", "attempts": 0, "fence": 0,
                "due_at": 0.0, "created_at": run["ended_at"],
            }
            for hook_id, event in wanted
        ],
    )  # fmt: skip


def _events_of(run: Mapping[str, Any]) -> list[WebhookEvent]:
    event = _EVENTS.get(run["state"])
    if event is None:
        return []
    # To judge a gate takes seconds, which no transaction has: whoever delivers the message does so.
    is_judged = run["kind"] == "gate" and event == "run.completed"
    return [event, "gate.failed"] if is_judged else [event]


def _body(event: WebhookEvent, run: Mapping[str, Any]) -> str:
    ended = rows.known_moment(run["ended_at"])
    told = EndedRun.model_validate({**run, "request_counts": rows.counts(run)})
    return WebhookMessage(type=event, timestamp=ended, data=told).model_dump_json()


def _row(connection: Connection, webhook_id: str, *, locked: bool = False) -> RowMapping:
    mine = rows.is_own(connection, schema.webhooks.c.tenant)
    query = select(schema.webhooks).where(schema.webhooks.c.id == webhook_id, mine)
    row = rows.first(connection, query.with_for_update() if locked else query)
    if row is None:
        raise NotFound(f"no webhook has the id {webhook_id!r}; list the webhooks to find it")
    return row


def _webhook(row: RowMapping) -> Webhook:
    return Webhook.model_validate(dict(row))


def _delivery(row: RowMapping) -> WebhookDelivery:
    return WebhookDelivery.model_validate({**row, "id": row["message"]})
