"""Tables of what processes report and of what they have answered."""

from __future__ import annotations

from sqlalchemy import JSON, Column, Float, Integer, Table

from counterpose_gateway.ledger.tables.columns import Line, Prose, metadata

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
