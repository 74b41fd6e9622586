"""Find the last run to serve of a tenant, behind which the next one of it stands.

Revision ID: 0103
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0103"
down_revision = "0102"


def upgrade() -> None:
    """Add the index."""
    to_serve = sa.text("state IN ('queued', 'in_progress') AND idle_until IS NULL")
    op.create_index(
        "runs_to_serve_of_tenant", "runs", ["tenant", "served_at"],
        sqlite_where=to_serve, postgresql_where=to_serve,
    )  # fmt: skip


def downgrade() -> None:
    """Drop it."""
    op.drop_index("runs_to_serve_of_tenant", "runs")
