"""Find the sources of a dataset that are in groups by an index.

Revision ID: 0019
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

_GROUPED = sa.text('"group" IS NOT NULL')


def upgrade() -> None:
    """Add the index; that takes about a second for a million sources."""
    op.create_index(
        "sources_grouped", "sources", ["dataset", "id"], sqlite_where=_GROUPED, postgresql_where=_GROUPED
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_index("sources_grouped", "sources")
