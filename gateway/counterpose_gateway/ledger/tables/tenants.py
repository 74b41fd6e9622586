"""Tables of tenants: keys, quotas, blobs that they may read, what their runs spend, and their webhooks.

Tables of what processes report and of what they have answered.
"""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Column, Float, ForeignKey, Index, Integer, Table, text

from counterpose_gateway.ledger.tables.columns import Line, Prose, metadata
from counterpose_gateway.records.tenants import DEFAULT_TENANT

PENDING_DELIVERIES = text("state = 'pending'")

access_keys = Table(
    "access_keys",
    metadata,
    Column("id", Line(32), primary_key=True),
    Column("name", Line(120), nullable=False),
    Column("digest", Line(64), nullable=False),
    Column("scopes", JSON, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("expires_at", Float),
    Column("revoked_at", Float),
    Column("tenant", Line(48), nullable=False, server_default=DEFAULT_TENANT),
)
"""API keys by their digests. A key that has ended stays, so that its end can be told."""

access_log = Table(
    "access_log",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("at", Float, nullable=False),
    Column("holder", Line(32), nullable=False),
    Column("method", Line(16), nullable=False),
    Column("path", Prose, nullable=False),
    Column("status", Integer, nullable=False),
    Column("tenant", Line(48), nullable=False, server_default=DEFAULT_TENANT),
)
"""What the holders of keys changed or tried to change. Rows are only added."""

tenant_quotas = Table(
    "tenant_quotas",
    metadata,
    Column("tenant", Line(48), primary_key=True),
    Column("images", BigInteger),
    Column("gpu_seconds", Float),
)
"""What a tenant may use in a calendar month; null for no bound. A tenant without a row has none."""

tenant_usage = Table(
    "tenant_usage",
    metadata,
    Column("tenant", Line(48), primary_key=True),
    Column("month", Line(7), primary_key=True),
    Column("shard", Integer, primary_key=True, autoincrement=False),
    Column("images", BigInteger, nullable=False),
    Column("gpu_seconds", Float, nullable=False),
)
"""What a tenant's items have used in a month of UTC, such as ``2026-11``; it only grows.

Divided over several rows, as the totals over all runs are (`tallies`).
"""

blob_uses = Table(
    "blob_uses",
    metadata,
    Column("run_id", ForeignKey("runs.id"), primary_key=True),
    Column("ref", Line(64), primary_key=True),
    Index("blob_uses_of_blob", "ref", "run_id"),
    sqlite_with_rowid=False,
)
"""The blobs that a run's items start from, are planned with, or have made."""

kept_blobs = Table(
    "kept_blobs",
    metadata,
    Column("tenant", Line(48), primary_key=True),
    Column("ref", Line(64), primary_key=True),
    Column("kept_at", Float, nullable=False),
)
"""Blobs of a tenant that no dataset or item names: files of tokens, images that were made without a run."""

kept_bytes = Table(
    "kept_bytes",
    metadata,
    Column("tenant", Line(48), primary_key=True),
    Column("until", Float, primary_key=True),
    Column("amount", BigInteger, nullable=False),
)
"""How many bytes a tenant has stored beside its datasets: until a time, or for good, where that is 0.

Few rows: those of a time are bytes of deleted datasets, together for each minute, until they are erased.
"""

loose_digests = Table(
    "loose_digests",
    metadata,
    Column("digest", Line(64), primary_key=True),
    Column("loosened_at", Float, nullable=False),
)
"""Digests that a deleted row named: unless another row names them, what is stored under them goes."""

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

spending = Table(
    "spending",
    metadata,
    # No foreign key: a row goes before its run, and is only added while the run's row is locked.
    Column("run_id", Line(64), primary_key=True),
    Column("call", Line(32), primary_key=True),
    Column("service", Line(32), nullable=False),
    Column("calls", BigInteger, nullable=False),
    Column("images", BigInteger, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
"""What the services asked servers of others for in a run. A row is a call that is not answered yet, with the
most that it may cost, or the sum of a service's answered ones, whose ``call`` is the service's name.
"""

spending_limits = Table(
    "spending_limits",
    metadata,
    Column("run_id", Line(64), primary_key=True),
    Column("limits", JSON, nullable=False),
)
"""How much a run may ask servers of others for, at which prices (`records.spending.Allotment`)."""

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
    Index(
        "webhook_deliveries_due",
        "due_at",
        sqlite_where=PENDING_DELIVERIES,
        postgresql_where=PENDING_DELIVERIES,
    ),
    sqlite_autoincrement=True,
)
"""The webhooks. ``message``: the id that the target sees, the same in each try. ``body``: what is sent, made
when the run ended. ``fence`` and ``due_at``: the lease of the gateway that delivers it, as items are leased.
"""


process_counts = Table(
    "process_counts",
    metadata,
    Column("series", Line(200), primary_key=True),
    Column("amount", Float, nullable=False),
)
"""What all processes have counted beside the runs, such as calls to services; it only grows."""

worker_readings = Table(
    "worker_readings",
    metadata,
    Column("worker", Line(255), primary_key=True),
    Column("seen_at", Float, nullable=False),
    Column("reading", JSON, nullable=False),
)
"""What each worker does at the moment, as it told last."""

lease_readings = Table(
    "lease_readings",
    metadata,
    Column("machine", Line(100), primary_key=True),
    Column("lease_time", Float, nullable=False),
    Column("reading", Float, nullable=False),
)
"""What a machine's monotonic clock showed at a lease time; `machine` names its start, too."""

ledger_identity = Table(
    "ledger_identity",
    metadata,
    Column("id", Line(32), primary_key=True),
    Column("last_event", BigInteger, nullable=False, server_default="0"),
)
"""One row: which ledger this is, by which a store knows it, and the number of its last event.

The events of runs that are deleted go, the number stays.
"""

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("scope", Line(255), primary_key=True),
    Column("key", Line(255), primary_key=True),
    Column("fingerprint", Line(64), nullable=False),
    Column("claimed_at", Float, nullable=False),
    Column("status", Integer),
    Column("body", Prose),
)
