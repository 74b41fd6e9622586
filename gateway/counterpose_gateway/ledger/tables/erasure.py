"""The ledger's tables of datasets that end, and of blobs that nothing may name any more."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Float, Table, exists, false, select

from counterpose_gateway.ledger.tables.schema import datasets, metadata
from counterpose_gateway.ledger.tables.storable_text import Line

dataset_ends = Table(
    "dataset_ends",
    metadata,
    # No foreign key: the row is there before its dataset's import, and goes with it.
    Column("dataset", Line(160), primary_key=True),
    Column("expires_at", Float),
    Column("deleting", Boolean, nullable=False, server_default=false()),
)
"""``deleting``: it is hidden from everybody, and its rows are being deleted."""

loose_digests = Table(
    "loose_digests",
    metadata,
    Column("digest", Line(64), primary_key=True),
    Column("loosened_at", Float, nullable=False),
)
"""Digests that a deleted row named: unless another row names them, what is stored under them goes."""

_ends = dataset_ends.c
KEPT = ~exists().where(_ends.dataset == datasets.c.name, _ends.deleting)
"""The condition on datasets that others may see."""
EXPIRES_AT = (
    select(_ends.expires_at).where(_ends.dataset == datasets.c.name).scalar_subquery().label("expires_at")
)
"""When a dataset of the statement ends."""
