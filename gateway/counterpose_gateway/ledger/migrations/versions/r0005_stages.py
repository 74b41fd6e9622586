"""Plan runs in stages; every run and item from before belongs to a first and only stage.

Revision ID: 0005
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_OPEN = sa.text("state IN ('pending', 'leased')")


def upgrade() -> None:
    """Add the columns, with constant defaults so that neither database rewrites its tables, and the index."""
    op.add_column("items", sa.Column("stage", sa.Integer(), nullable=False, server_default="1"))
    for column in _of_runs():
        op.add_column("runs", column)
    op.create_index(
        "items_open_of_source", "items", ["run_id", "source_id"], sqlite_where=_OPEN, postgresql_where=_OPEN
    )


def downgrade() -> None:
    """Drop all of it; items of opened stages stay, as if they had been planned at creation."""
    op.execute("DELETE FROM items WHERE stage > (SELECT stage FROM runs WHERE runs.id = items.run_id)")
    op.drop_index("items_open_of_source", "items")
    for column in reversed(_of_runs()):
        op.drop_column("runs", column.name)
    op.drop_column("items", "stage")


def _of_runs() -> list[sa.Column[object]]:
    return [
        sa.Column("parent", sa.String(length=64)),
        sa.Column("staged", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("stage", sa.Integer(), nullable=False, server_default="1"),
        sa.Column("planning_fence", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("planning_attempts", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("planning_due_at", sa.Float(), nullable=False, server_default="0"),
    ]
