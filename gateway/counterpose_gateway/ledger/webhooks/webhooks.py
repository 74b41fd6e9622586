"""Webhooks: created with a secret, listed without it, deleted with what they were to be told."""

from __future__ import annotations

import base64
import secrets

from sqlalchemy import Connection, RowMapping, delete, func, insert, select

from counterpose_core.contract.webhooks import (
    MOST_WEBHOOKS,
    Webhook,
    WebhookCreate,
    WebhookCreated,
    WebhookDelivery,
    WebhookList,
)
from counterpose_core.errors import NotFound, QuotaExceeded
from counterpose_gateway.ledger.database.engine import LedgerPart
from counterpose_gateway.ledger.tables import rows, schema
from counterpose_gateway.records.tenants import DEFAULT_TENANT

SECRET_BYTES = 32
SHOWN = 20
"""Messages that a webhook shows, the newest."""


class Webhooks(LedgerPart):
    """The part of the ledger that the routes of webhooks call."""

    def create_webhook(self, body: WebhookCreate) -> WebhookCreated:
        """Make a webhook durable and return it with its secret.

        Raises:
            QuotaExceeded: there are `MOST_WEBHOOKS`.
        """
        secret = f"whsec_{base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()}"
        webhook_id = secrets.token_hex(16)
        row = {
            "id": webhook_id, "url": body.url, "events": body.events, "secret": secret,
            "created_at": self._clock(), "tenant": self._tenant or DEFAULT_TENANT,
        }  # fmt: skip
        with self._database.writing() as connection:
            mine = rows.is_own(connection, schema.webhooks.c.tenant)
            count = select(func.count()).select_from(schema.webhooks).where(mine)
            known = connection.execute(count).scalar_one()
            if known >= MOST_WEBHOOKS:
                raise QuotaExceeded(f"there are {known} webhooks, the most there may be; delete one first")
            connection.execute(insert(schema.webhooks).values(row))
            made = _webhook(_row(connection, webhook_id))
        return WebhookCreated(**made.model_dump(), secret=secret)

    def webhooks(self) -> WebhookList:
        """Return all webhooks, oldest first."""
        query = select(schema.webhooks).order_by(schema.webhooks.c.created_at, schema.webhooks.c.id)
        with self._database.reading() as connection:
            query = query.where(rows.is_own(connection, schema.webhooks.c.tenant))
            return WebhookList(webhooks=[_webhook(row) for row in connection.execute(query).mappings()])

    def webhook(self, webhook_id: str) -> Webhook:
        """Return a webhook with its newest messages; raises `NotFound`."""
        newest = select(schema.deliveries).where(schema.deliveries.c.webhook_id == webhook_id)
        newest = newest.order_by(schema.deliveries.c.id.desc()).limit(SHOWN)
        with self._database.reading() as connection:
            found = _webhook(_row(connection, webhook_id))
            told = [_delivery(row) for row in connection.execute(newest).mappings()]
        return found.model_copy(update={"deliveries": told})

    def delete_webhook(self, webhook_id: str) -> None:
        """Delete a webhook and its messages, those that wait too; raises `NotFound`."""
        with self._database.writing() as connection:
            # Locked: a run that ends meanwhile either finds it gone, or has its message deleted with it.
            _row(connection, webhook_id, locked=True)
            connection.execute(delete(schema.deliveries).where(schema.deliveries.c.webhook_id == webhook_id))
            connection.execute(delete(schema.webhooks).where(schema.webhooks.c.id == webhook_id))


def _row(connection: Connection, webhook_id: str, *, locked: bool = False) -> RowMapping:
    mine = rows.is_own(connection, schema.webhooks.c.tenant)
    query = select(schema.webhooks).where(schema.webhooks.c.id == webhook_id, mine)
    row = rows.first(connection, query.with_for_update() if locked else query)
    if row is None:
        raise NotFound(f"no webhook has the id {webhook_id!r}; list the webhooks to find it")
    return row


def _webhook(row: RowMapping) -> Webhook:
    return Webhook(
        id=row["id"], url=row["url"], events=row["events"], created_at=rows.known_moment(row["created_at"])
    )


def _delivery(row: RowMapping) -> WebhookDelivery:
    return WebhookDelivery(
        id=row["message"], event=row["event"], run_id=row["run_id"], state=row["state"],
        attempts=row["attempts"], created_at=rows.known_moment(row["created_at"]),
        delivered_at=rows.moment(row["delivered_at"]), failure=row["failure"], detail=row["detail"],
    )  # fmt: skip
