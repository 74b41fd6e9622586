"""The outbox: a message to each webhook, written in the transaction that ends a run.

So there is a message exactly if the run has ended. Gateways deliver them later, under leases; a message of a
gateway that was killed is delivered by another, and may then arrive twice, with the same id.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from counterpose_core.contract.webhooks import DeliveryFailure, EndedRun, WebhookEvent, WebhookMessage
from counterpose_gateway.ledger.database.engine import LedgerPart
from counterpose_gateway.ledger.database.lease_time import LeaseTime
from counterpose_gateway.ledger.tables import rows, schema
from counterpose_gateway.records.deliveries import LeasedDelivery

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
    told = EndedRun(
        id=run["id"], kind=run["kind"], state=run["state"], name=run["name"], dataset=run["dataset"],
        created_at=rows.known_moment(run["created_at"]), ended_at=ended, request_counts=rows.counts(run),
        problem=run["problem"],
    )  # fmt: skip
    return WebhookMessage(type=event, timestamp=ended, data=told).model_dump_json()


class Outbox(LedgerPart):
    """The part of the ledger that delivers messages."""

    _lease_time: LeaseTime

    def lease_deliveries(self, *, seconds: float, most: int) -> Sequence[LeasedDelivery]:
        """Lease messages that are due, those that have waited longest first."""
        due = select(_deliveries.id).where(
            schema.PENDING_DELIVERIES, _deliveries.due_at <= self._lease_time()
        )
        due = due.order_by(_deliveries.due_at).limit(most)
        # Idle gateways ask each second; without work they must not queue for the write lock.
        with self._database.reading() as connection:
            if connection.execute(due).first() is None:
                return []
        with self._database.writing() as connection:
            ids = connection.execute(due.with_for_update(skip_locked=True)).scalars().all()
            held = {
                "attempts": _deliveries.attempts + 1, "fence": _deliveries.fence + 1,
                "due_at": self._lease_time() + seconds,
            }  # fmt: skip
            connection.execute(update(schema.deliveries).where(_deliveries.id.in_(ids)).values(held))
            query = select(
                *(_deliveries[name] for name in _LEASED),
                schema.webhooks.c.url, schema.webhooks.c.secret,
            ).join_from(schema.deliveries, schema.webhooks)  # fmt: skip
            found = connection.execute(query.where(_deliveries.id.in_(ids)).order_by(_deliveries.id))
            return [LeasedDelivery(**row) for row in found.mappings()]

    def delivered(self, leased: LeasedDelivery) -> None:
        """Note that the target took a message; without effect if the lease is lost."""
        self._conclude(leased, {"state": "delivered", "delivered_at": self._clock()})

    def withdraw(self, leased: LeasedDelivery) -> None:
        """Take a message back that turns out to tell nothing; without effect if the lease is lost."""
        mine = (_deliveries.id == leased.id) & (_deliveries.fence == leased.fence)
        with self._database.writing() as connection:
            connection.execute(delete(schema.deliveries).where(mine))

    def not_delivered(
        self, leased: LeasedDelivery, failure: DeliveryFailure, detail: str, again_in: float | None
    ) -> None:
        """Note why a try failed, and when the next is due; None for no further one."""
        told: dict[str, Any] = {"failure": failure, "detail": detail}
        if again_in is None:
            self._conclude(leased, told | {"state": "failed"})
        else:
            self._conclude(leased, told | {"due_at": self._lease_time() + again_in})

    def _conclude(self, leased: LeasedDelivery, values: Mapping[str, Any]) -> None:
        old = _deliveries.created_at < self._clock() - KEPT_SECONDS
        # The fence goes up with each lease: a gateway that was too slow writes nothing.
        mine = (_deliveries.id == leased.id) & (_deliveries.fence == leased.fence)
        with self._database.writing() as connection:
            connection.execute(
                update(schema.deliveries).where(mine).values({"failure": None, "detail": None, **values})
            )
            connection.execute(delete(schema.deliveries).where(old, _deliveries.state != "pending"))
