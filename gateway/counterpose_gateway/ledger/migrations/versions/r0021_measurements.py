"""Keep what an operator watches: open items, outcomes by kind, counts of calls, readings of workers.

Revision ID: 0021
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_UNDER_WAY = sa.text("state IN ('queued', 'in_progress')")


def upgrade() -> None:
    """Add tables and columns; open items are counted once, outcomes begin at none."""
    op.add_column("tallies", sa.Column("open_items", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("tallies", sa.Column("attempts", sa.JSON(), nullable=False, server_default="{}"))
    op.execute(
        "UPDATE tallies SET open_items = "
        "(SELECT coalesce(sum(pending), 0) FROM runs WHERE state != 'deleting') WHERE shard = 0"
    )
    op.create_table(
        "process_counts",
        sa.Column("series", sa.String(200), nullable=False),
        sa.Column("amount", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("series"),
    )
    op.create_table(
        "worker_readings",
        sa.Column("worker", sa.String(255), nullable=False),
        sa.Column("seen_at", sa.Float(), nullable=False),
        sa.Column("reading", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("worker"),
    )
    op.create_index(
        "runs_under_way", "runs", ["created_at"], sqlite_where=_UNDER_WAY, postgresql_where=_UNDER_WAY
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_index("runs_under_way", "runs")
    op.drop_table("worker_readings")
    op.drop_table("process_counts")
    op.drop_column("tallies", "attempts")
    op.drop_column("tallies", "open_items")
