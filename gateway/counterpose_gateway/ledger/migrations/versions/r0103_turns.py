"""Find the last run to serve of a tenant, behind which the next one of it stands.

Revision ID: 0103
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0103"
down_revision = "0102"


def upgrade() -> None:
    """Add the index, and let all runs that go on begin at one place: before, it was a time."""
    op.execute("UPDATE runs SET served_at = 0 WHERE ended_at IS NULL")
    to_serve = sa.text("state IN ('queued', 'in_progress') AND idle_until IS NULL")
    op.create_index(
        "runs_to_serve_of_tenant", "runs", ["tenant", "served_at"],
        sqlite_where=to_serve, postgresql_where=to_serve,
    )  # fmt: skip


def downgrade() -> None:
    """Drop it; a place is less than any time, so that these runs come first."""
    op.drop_index("runs_to_serve_of_tenant", "runs")
