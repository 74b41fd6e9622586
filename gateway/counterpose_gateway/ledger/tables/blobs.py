"""The ledger's tables of who may read a blob: the store itself names blobs by their content alone."""

from __future__ import annotations

from sqlalchemy import Column, Float, ForeignKey, Index, Table

from counterpose_gateway.ledger.tables.schema import metadata
from counterpose_gateway.ledger.tables.storable_text import Line

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
