"""Remember where a run's functions are served, apart from its configuration, which every reader sees.

Revision ID: 0010
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, which is null for runs whose classifiers the services load themselves."""
    op.add_column("runs", sa.Column("functions", sa.JSON(none_as_null=True)))


def downgrade() -> None:
    """Drop it: items of such runs that are still open then fail."""
    op.drop_column("runs", "functions")
