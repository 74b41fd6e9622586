"""The ledger's tables of API keys, and of what their holders changed."""

from __future__ import annotations

from sqlalchemy import JSON, Column, Float, Integer, Table

from counterpose_gateway.ledger.tables.schema import metadata
from counterpose_gateway.ledger.tables.storable_text import Line, Prose
from counterpose_gateway.records.tenants import DEFAULT_TENANT

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
