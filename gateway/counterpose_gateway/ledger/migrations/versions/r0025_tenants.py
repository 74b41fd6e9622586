"""Let each object belong to a tenant; what exists belongs to ``default``.

Revision ID: 0025
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

_OWNED = ("runs", "datasets", "jobs", "webhooks", "deleted_runs", "access_keys", "access_log")
_KEYS = {"datasets": "name", "sources": "dataset", "imports": "dataset", "import_shards": "dataset"}
"""The columns with keys of datasets, which have the tenant in front."""


def upgrade() -> None:
    """Add the owners, and room for longer keys where the database counts letters."""
    for table in _OWNED:
        op.add_column(
            table, sa.Column("tenant", sa.String(48), nullable=False, server_default="default")
        )  # fmt: skip
    op.create_index("runs_newest_of_tenant", "runs", ["tenant", "created_at", "id"])
    _resize_keys(160)


def downgrade() -> None:
    """Drop the owners: all see all. Datasets of other tenants keep their keys as names."""
    _resize_keys(96)
    op.drop_index("runs_newest_of_tenant", "runs")
    for table in _OWNED:
        op.drop_column(table, "tenant")


def _resize_keys(most: int) -> None:
    if op.get_bind().dialect.name == "sqlite":
        return
    for table, column in _KEYS.items():
        op.alter_column(table, column, type_=sa.String(most))
