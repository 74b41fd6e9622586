"""Let a run have a name, and be deleted.

Revision ID: 0008
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the name, which is null for all runs there are, and the list of deleted runs."""
    op.add_column("runs", sa.Column("name", sa.String(120)))
    op.create_table(
        "deleted_runs",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("deleted_at", sa.Float, nullable=False),
        sa.Column("cost", sa.JSON(none_as_null=True)),
    )


def downgrade() -> None:
    """Drop both: names are lost, and what deleted runs cost is no longer counted."""
    op.drop_table("deleted_runs")
    op.drop_column("runs", "name")
