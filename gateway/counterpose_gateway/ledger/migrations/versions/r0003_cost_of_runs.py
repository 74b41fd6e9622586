"""Note on each run what its items took; items recorded before are not in it.

Revision ID: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("runs", sa.Column("cost", sa.JSON()))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("runs", "cost")
