"""The ledger's tables of webhooks: addresses, and the outbox of what they are told."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Column, Float, ForeignKey, Index, Integer, Table, text

from counterpose_gateway.ledger.tables.schema import metadata
from counterpose_gateway.ledger.tables.storable_text import Line, Prose
from counterpose_gateway.records.tenants import DEFAULT_TENANT

PENDING = text("state = 'pending'")

webhooks = Table(
    "webhooks",
    metadata,
    Column("id", Line(64), primary_key=True),
    Column("url", Line(2000), nullable=False),
    Column("events", JSON, nullable=False),
    Column("secret", Line(100), nullable=False),
    Column("created_at", Float, nullable=False),
    Column("tenant", Line(48), nullable=False, server_default=DEFAULT_TENANT),
)
"""``secret``: as it was shown, because each message is signed with it."""

deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("message", Line(64), nullable=False, unique=True),
    Column("webhook_id", ForeignKey("webhooks.id"), nullable=False),
    # No foreign key: the row is locked last, when a run ends, and goes before the run.
    Column("run_id", Line(64), nullable=False),
    Column("event", Line(32), nullable=False),
    Column("body", Prose, nullable=False),
    Column("state", Line(16), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("fence", Integer, nullable=False),
    Column("due_at", Float, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("delivered_at", Float),
    Column("failure", Line(32)),
    Column("detail", Prose),
    Index("webhook_deliveries_of_webhook", "webhook_id", "id"),
    Index("webhook_deliveries_of_run", "run_id", "id"),
    Index("webhook_deliveries_due", "due_at", sqlite_where=PENDING, postgresql_where=PENDING),
    sqlite_autoincrement=True,
)
"""The outbox. ``message``: the id that the target sees, the same in each try. ``body``: what is sent, made
when the run ended. ``fence`` and ``due_at``: the lease of the gateway that delivers it, as items are leased.
"""
