"""Keep who decided on which threshold of a benchmark's shift; nothing is ever overwritten.

Revision ID: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "shift_decisions",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True
        ),
        sa.Column("run_id", sa.String(length=64), sa.ForeignKey("runs.id"), nullable=False),
        sa.Column("shift", sa.String(length=500), nullable=False),
        sa.Column("checkpoint", sa.String(length=255), nullable=False),
        sa.Column("author", sa.String(length=200), nullable=False),
        sa.Column("decided_at", sa.Float, nullable=False),
        sa.Column("percentile", sa.Float),
        sa.Column("threshold", sa.Float),
        sa.Column("failing_above", sa.JSON(), nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("shift_decisions_of_run", "shift_decisions", ["run_id", "id"])


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("shift_decisions")
