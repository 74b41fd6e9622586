"""The ledger's tables of what tenants may use in a month, and what they have used."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Integer, Table

from counterpose_gateway.ledger.tables.schema import metadata
from counterpose_gateway.ledger.tables.storable_text import Line

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
