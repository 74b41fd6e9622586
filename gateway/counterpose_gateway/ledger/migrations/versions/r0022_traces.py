"""Keep the trace of the request that made a run, which the spans of its items belong to.

Revision ID: 0022
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add it; runs of before have none."""
    op.add_column("runs", sa.Column("trace", sa.String(64), nullable=True))


def downgrade() -> None:
    """Drop it."""
    op.drop_column("runs", "trace")
