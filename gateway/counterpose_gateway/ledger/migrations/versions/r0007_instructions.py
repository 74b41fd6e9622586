"""Remember what a stage asks of each item that it planned from results.

Revision ID: 0007
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, which is null for items that were planned at a run's creation."""
    op.add_column("items", sa.Column("instruction", sa.JSON(none_as_null=True)))


def downgrade() -> None:
    """Drop it: items of later stages that are still open can then not be worked on."""
    op.drop_column("items", "instruction")
