"""Tables of datasets: their sources, their imports and their end."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Integer,
    Table,
    UniqueConstraint,
    exists,
    false,
    select,
    text,
)

from counterpose_gateway.ledger.tables.columns import Line, Prose, metadata, partial
from counterpose_gateway.records.tenants import DEFAULT_TENANT

GROUPED_SOURCES = text('"group" IS NOT NULL')

MASKED_SOURCES = text("mask IS NOT NULL")

OPEN_SHARDS = text("state IN ('pending', 'leased')")

datasets = Table(
    "datasets",
    metadata,
    # Longer than a name: the key of a dataset has its tenant in front. SQLite counts no letters.
    Column("name", Line(96).with_variant(Line(160), "postgresql"), primary_key=True),
    Column("classes", JSON, nullable=False),
    Column("fixed_classes", Integer, nullable=False),
    Column("digest", Line(64), nullable=False),
    Column("n_sources", Integer, nullable=False),
    Column("rejected", JSON, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("stored_bytes", BigInteger, nullable=False, server_default="0"),
    Column("changes", Integer, nullable=False, server_default="0"),
    Column("tenant", Line(48), nullable=False, server_default=DEFAULT_TENANT),
)
"""``n_sources`` and ``stored_bytes``, its images and their bytes as stored, are kept, not counted.

``digest``: empty after a change, until someone asks for it; ``changes`` counts the changes.
"""

sources = Table(
    "sources",
    metadata,
    Column("dataset", ForeignKey("datasets.name"), primary_key=True),
    Column("id", Line(64), primary_key=True),
    Column("ordinal", Integer, nullable=False),
    Column("image", Line(64), nullable=False, index=True),
    Column("label", Line(200), nullable=False),
    Column("filename", Line(255), nullable=False),
    Column("caption", Prose),
    Column("group", Line(200)),
    Column("width", Integer, nullable=False),
    Column("height", Integer, nullable=False),
    Column("mask", Line(64)),
    UniqueConstraint("dataset", "ordinal"),
    # Partial: few datasets have groups, and the digest of every one asks for them.
    partial("sources_grouped", "dataset", "id", where=GROUPED_SOURCES),
    # Partial, too: whose blob it is, and whether anything names it, is asked of the mask alone.
    partial("sources_masked", "mask", where=MASKED_SOURCES),
)

imports = Table(
    "imports",
    metadata,
    Column("dataset", ForeignKey("datasets.name"), primary_key=True),
    Column("request", JSON, nullable=False),
    Column("layout", Line(32), nullable=False),
    Column("names", JSON(none_as_null=True)),
    Column("state", Line(16), nullable=False),
    Column("listed", Integer, nullable=False),
    Column("mark", Prose),
    Column("fence", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("due_at", Float, nullable=False),
    Column("problem", JSON(none_as_null=True)),
)
"""How datasets are imported from a URL. ``names``: class names by the numbers that stand for them.

``listed``: shards found so far, the last of which is named by ``mark``; ``fence``, ``attempts`` and
``due_at`` are those of the lease under which one process finds them.
"""

import_shards = Table(
    "import_shards",
    metadata,
    Column("dataset", ForeignKey("imports.dataset"), primary_key=True),
    Column("ordinal", Integer, primary_key=True, autoincrement=False),
    Column("path", Prose, nullable=False),
    Column("label", Prose),
    Column("files", JSON(none_as_null=True)),
    Column("state", Line(16), nullable=False),
    Column("fence", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("due_at", Float, nullable=False),
    Column("stamp", Prose),
    Column("changes", Integer, nullable=False, server_default="0"),
    Column("position", BigInteger, nullable=False),
    Column("taken", Integer, nullable=False),
    Column("rejected", Integer, nullable=False),
    Column("rejections", JSON(none_as_null=True)),
    Column("problem", JSON(none_as_null=True)),
    partial("import_shards_open", "due_at", "dataset", "ordinal", where=OPEN_SHARDS),
)
"""A part of an import that one worker reads: a tar, a Parquet file, or some ``files`` of one folder.

``position``: where the part begins that is not recorded yet. ``stamp``: size and version of the shard when
its first images were recorded; another one means that it was changed, which ``changes`` counts.
"""

dataset_ends = Table(
    "dataset_ends",
    metadata,
    # No foreign key: the row is there before its dataset's import, and goes with it.
    Column("dataset", Line(160), primary_key=True),
    Column("expires_at", Float),
    Column("deleting", Boolean, nullable=False, server_default=false()),
)
"""``deleting``: it is hidden from everybody, and its rows are being deleted."""

_ends = dataset_ends.c

KEPT_DATASETS = ~exists().where(_ends.dataset == datasets.c.name, _ends.deleting)
"""The condition on datasets that others may see."""

EXPIRES_AT = (
    select(_ends.expires_at).where(_ends.dataset == datasets.c.name).scalar_subquery().label("expires_at")
)
"""When a dataset of the statement ends."""
