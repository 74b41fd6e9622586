"""The ledger's tables: datasets and their sources, runs, items, events, idempotency keys."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

metadata = MetaData()

OPEN_ITEMS = text("state IN ('pending', 'leased')")

datasets = Table(
    "datasets",
    metadata,
    Column("name", String(96), primary_key=True),
    Column("classes", JSON, nullable=False),
    Column("fixed_classes", Integer, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("n_sources", Integer, nullable=False),
    Column("rejected", JSON, nullable=False),
    Column("created_at", Float, nullable=False),
)

sources = Table(
    "sources",
    metadata,
    Column("dataset", ForeignKey("datasets.name"), primary_key=True),
    Column("id", String(64), primary_key=True),
    Column("ordinal", Integer, nullable=False),
    Column("image", String(64), nullable=False, index=True),
    Column("label", String(200), nullable=False),
    Column("filename", String(255), nullable=False),
    Column("caption", Text),
    Column("width", Integer, nullable=False),
    Column("height", Integer, nullable=False),
    UniqueConstraint("dataset", "ordinal"),
)

runs = Table(
    "runs",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("state", String(32), nullable=False),
    Column("dataset", String(96), nullable=False),
    Column("config", JSON, nullable=False),
    # On the run itself: it is kept as long as the run, and both become durable in one commit.
    Column("idempotency_key", String(255), unique=True),
    Column("fingerprint", String(64), nullable=False),
    Column("created_at", Float, nullable=False),
    Column("started_at", Float),
    Column("ended_at", Float),
    Column("served_at", Float, nullable=False),
    Column("problem", JSON(none_as_null=True)),
    Column("total", Integer, nullable=False),
    Column("pending", Integer, nullable=False),
    Column("done", Integer, nullable=False),
    Column("filtered", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("cancelled", Integer, nullable=False),
    Index("runs_newest", "created_at", "id"),
)

items = Table(
    "items",
    metadata,
    Column("id", String(96), primary_key=True),
    Column("run_id", ForeignKey("runs.id"), nullable=False),
    Column("item_key", String(255), nullable=False),
    Column("ordinal", Integer, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("source_id", String(64), nullable=False),
    Column("source_image", String(64), nullable=False),
    Column("label", String(200), nullable=False),
    Column("edit_type", String(32)),
    Column("slot", Integer, nullable=False),
    Column("caption", Text),
    Column("state", String(16), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("fence", Integer, nullable=False),
    Column("worker", String(255)),
    Column("due_at", Float, nullable=False),
    Column("reason", String(255)),
    Column("code", String(64)),
    Column("detail", Text),
    Column("result", JSON(none_as_null=True)),
    UniqueConstraint("run_id", "item_key"),
    UniqueConstraint("run_id", "ordinal"),
    # Partial: most items are finished, and the question is asked twice a second by each idle hand.
    Index("items_open", "run_id", "ordinal", sqlite_where=OPEN_ITEMS, postgresql_where=OPEN_ITEMS),
)
"""``due_at``: when a pending item may be leased, when a leased one's lease ends."""

events = Table(
    "events",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("run_id", ForeignKey("runs.id"), nullable=False),
    Column("state", String(32), nullable=False),
    Column("counts", JSON, nullable=False),
    Column("message", Text, nullable=False),
    Index("events_of_run", "run_id", "id"),
    # Without it SQLite gives a deleted event's number again, and a stream would skip what bears it.
    sqlite_autoincrement=True,
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("scope", String(255), primary_key=True),
    Column("key", String(255), primary_key=True),
    Column("fingerprint", String(64), nullable=False),
    Column("claimed_at", Float, nullable=False),
    Column("status", Integer),
    Column("body", Text),
)
