"""Plan large runs in chunks: remember of how many sources, and find the runs that wait for a planner.

Revision ID: 0014
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_TO_PLAN = sa.text("state IN ('validating', 'finalizing')")
_TO_PLAN_BEFORE = sa.text("state = 'finalizing'")


def upgrade() -> None:
    """Add the column, which is null for runs whose items are all stored, and widen the index."""
    op.add_column("runs", sa.Column("plan_sources", sa.JSON(none_as_null=True)))
    _index(_TO_PLAN)


def downgrade() -> None:
    """Undo both; runs that are still being planned stay in a state that older workers do not know."""
    _index(_TO_PLAN_BEFORE)
    op.drop_column("runs", "plan_sources")


def _index(where: sa.TextClause) -> None:
    op.drop_index("runs_to_plan", "runs")
    columns = ["planning_due_at", "created_at", "id"]
    op.create_index("runs_to_plan", "runs", columns, sqlite_where=where, postgresql_where=where)
