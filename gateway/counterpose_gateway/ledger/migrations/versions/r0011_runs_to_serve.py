"""Find the run to serve, its first ready item and the run to plan by an index.

Revision ID: 0011
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_OPEN_ITEMS = sa.text("state IN ('pending', 'leased')")
_TO_SERVE = sa.text("state IN ('queued', 'in_progress') AND idle_until IS NULL")
_IDLE = sa.text("idle_until IS NOT NULL")
_TO_PLAN = sa.text("state = 'finalizing'")


def upgrade() -> None:
    """Add the column and the indexes; every run that goes on is to serve, and looks find the idle ones."""
    op.add_column("runs", sa.Column("idle_until", sa.Float()))
    _index("runs_to_serve", "runs", ["served_at", "created_at", "id"], _TO_SERVE)
    _index("runs_idle", "runs", ["idle_until"], _IDLE)
    _index("runs_to_plan", "runs", ["planning_due_at", "created_at", "id"], _TO_PLAN)
    for name in ("items_open", "items_open_of_group"):
        op.drop_index(name, "items")
    _index("items_open_of_group", "items", ["run_id", "item_group", "stage"], _OPEN_ITEMS)
    _index("items_ready", "items", ["run_id", "stage", "due_at", "ordinal"], _OPEN_ITEMS)


def downgrade() -> None:
    """Drop them again, and index open items as before."""
    for name in ("items_ready", "items_open_of_group"):
        op.drop_index(name, "items")
    _index("items_open_of_group", "items", ["run_id", "item_group"], _OPEN_ITEMS)
    _index("items_open", "items", ["run_id", "ordinal"], _OPEN_ITEMS)
    for name in ("runs_to_plan", "runs_idle", "runs_to_serve"):
        op.drop_index(name, "runs")
    op.drop_column("runs", "idle_until")


def _index(name: str, table: str, columns: list[str], where: sa.TextClause) -> None:
    op.create_index(name, table, columns, sqlite_where=where, postgresql_where=where)
