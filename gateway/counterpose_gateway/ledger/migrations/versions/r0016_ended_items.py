"""Find a run's ended items of one state by an index.

Revision ID: 0016
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_ENDED_ITEMS = sa.text("state IN ('done', 'filtered', 'failed', 'cancelled')")


def upgrade() -> None:
    """Add the index; that takes about a second for a million items."""
    op.create_index(
        "items_ended", "items", ["run_id", "state", "ordinal"],
        sqlite_where=_ENDED_ITEMS, postgresql_where=_ENDED_ITEMS,
    )  # fmt: skip


def downgrade() -> None:
    """Drop it."""
    op.drop_index("items_ended", "items")
