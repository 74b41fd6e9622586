"""Count what runs ask servers of others for, and how much they may.

Revision ID: 0106
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0106"
down_revision = "0105"


def upgrade() -> None:
    """Add both; what earlier runs asked for was not counted."""
    numbers = ("calls", "images", "input_tokens", "output_tokens")
    op.create_table(
        "spending",
        sa.Column("run_id", sa.String(64), primary_key=True),
        sa.Column("call", sa.String(32), primary_key=True),
        sa.Column("service", sa.String(32), nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in numbers),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "spending_limits",
        sa.Column("run_id", sa.String(64), primary_key=True),
        sa.Column("limits", sa.JSON, nullable=False),
    )


def downgrade() -> None:
    """Drop both: what runs asked for is lost, and none stops at a limit."""
    op.drop_table("spending_limits")
    op.drop_table("spending")
