"""Keep the totals over all runs, which were counted at each scrape of the metrics.

Revision ID: 0013
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_ENDED = ("completed", "completed_with_failures", "failed", "cancelled")
_SHARDS = 16


def upgrade() -> None:
    """Make the table and fill its first row with the totals of today."""
    tallies = op.create_table(
        "tallies",
        sa.Column("shard", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("active_runs", sa.Integer(), nullable=False),
        sa.Column("cost", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("shard"),
    )
    connection = op.get_bind()
    state: sa.ColumnClause[str] = sa.column("state")
    active = sa.select(sa.func.count()).select_from(sa.table("runs", state)).where(state.not_in(_ENDED))
    first = {"shard": 0, "active_runs": connection.execute(active).scalar_one(), "cost": _spent(connection)}
    others = [{"shard": shard, "active_runs": 0, "cost": {}} for shard in range(1, _SHARDS)]
    op.bulk_insert(tallies, [first, *others])


def downgrade() -> None:
    """Drop it: the runs and what is left of deleted ones say the same."""
    op.drop_table("tallies")


def _spent(connection: sa.Connection) -> dict[str, Any]:
    spent: dict[str, Any] = {}
    for name in ("runs", "deleted_runs"):
        cost: sa.ColumnClause[Any] = sa.column("cost", sa.JSON())
        query = sa.select(cost).select_from(sa.table(name, cost))
        for noted in connection.execute(query, execution_options={"yield_per": 1000}).scalars():
            # Integers stay integers: counts of operations exceed what a float holds exactly.
            spent |= {what: spent.get(what, 0) + amount for what, amount in (noted or {}).items()}
    return spent
