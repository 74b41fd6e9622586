"""Make every table.

Revision ID: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_OPEN_ITEMS = sa.text("state IN ('pending', 'leased')")


def upgrade() -> None:
    """Make the tables, referenced ones first."""
    _create_datasets()
    _create_sources()
    _create_runs()
    _create_items()
    _create_events()
    _create_idempotency_keys()


def downgrade() -> None:
    """Drop the tables, referencing ones first."""
    for table in ("idempotency_keys", "events", "items", "runs", "sources", "datasets"):
        op.drop_table(table)


def _create_datasets() -> None:
    op.create_table(
        "datasets",
        sa.Column("name", sa.String(length=96), nullable=False),
        sa.Column("classes", sa.JSON(), nullable=False),
        sa.Column("fixed_classes", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("n_sources", sa.Integer(), nullable=False),
        sa.Column("rejected", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )


def _create_sources() -> None:
    op.create_table(
        "sources",
        sa.Column("dataset", sa.String(length=96), nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("image", sa.String(length=64), nullable=False),
        sa.Column("label", sa.String(length=200), nullable=False),
        sa.Column("filename", sa.String(length=255), nullable=False),
        sa.Column("caption", sa.Text()),
        sa.Column("width", sa.Integer(), nullable=False),
        sa.Column("height", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["dataset"], ["datasets.name"]),
        sa.PrimaryKeyConstraint("dataset", "id"),
        sa.UniqueConstraint("dataset", "ordinal"),
    )
    op.create_index("ix_sources_image", "sources", ["image"])


def _create_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("dataset", sa.String(length=96), nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("idempotency_key", sa.String(length=255)),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("started_at", sa.Float()),
        sa.Column("ended_at", sa.Float()),
        sa.Column("served_at", sa.Float(), nullable=False),
        sa.Column("problem", sa.JSON(none_as_null=True)),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("pending", sa.Integer(), nullable=False),
        sa.Column("done", sa.Integer(), nullable=False),
        sa.Column("filtered", sa.Integer(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.Column("cancelled", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("idempotency_key"),
    )
    op.create_index("runs_newest", "runs", ["created_at", "id"])


def _create_items() -> None:
    op.create_table(
        "items",
        sa.Column("id", sa.String(length=96), nullable=False),
        sa.Column("run_id", sa.String(length=64), nullable=False),
        sa.Column("item_key", sa.String(length=255), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("source_id", sa.String(length=64), nullable=False),
        sa.Column("source_image", sa.String(length=64), nullable=False),
        sa.Column("label", sa.String(length=200), nullable=False),
        sa.Column("edit_type", sa.String(length=32)),
        sa.Column("slot", sa.Integer(), nullable=False),
        sa.Column("caption", sa.Text()),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("worker", sa.String(length=255)),
        sa.Column("due_at", sa.Float(), nullable=False),
        sa.Column("reason", sa.String(length=255)),
        sa.Column("code", sa.String(length=64)),
        sa.Column("detail", sa.Text()),
        sa.Column("result", sa.JSON(none_as_null=True)),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("run_id", "item_key"),
        sa.UniqueConstraint("run_id", "ordinal"),
    )
    op.create_index(
        "items_open", "items", ["run_id", "ordinal"], sqlite_where=_OPEN_ITEMS, postgresql_where=_OPEN_ITEMS
    )


def _create_events() -> None:
    op.create_table(
        "events",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("counts", sa.JSON(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"]),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("events_of_run", "events", ["run_id", "id"])


def _create_idempotency_keys() -> None:
    op.create_table(
        "idempotency_keys",
        sa.Column("scope", sa.String(length=255), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("claimed_at", sa.Float(), nullable=False),
        sa.Column("status", sa.Integer()),
        sa.Column("body", sa.Text()),
        sa.PrimaryKeyConstraint("scope", "key"),
    )
