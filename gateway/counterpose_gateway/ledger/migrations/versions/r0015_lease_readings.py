"""Keep readings of lease time, which no setting of a clock moves.

Revision ID: 0015
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table; it is empty: lease time begins with the wall clock, which stamped all leases so far."""
    op.create_table(
        "lease_readings",
        sa.Column("machine", sa.String(100), nullable=False),
        sa.Column("lease_time", sa.Float(), nullable=False),
        sa.Column("reading", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("machine"),
    )


def downgrade() -> None:
    """Drop it: leases are measured by the wall clock again, of which lease time is seconds off at most."""
    op.drop_table("lease_readings")
