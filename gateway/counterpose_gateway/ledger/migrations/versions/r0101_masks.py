"""Note beside each source the mask that says where its object is.

Revision ID: 0101
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0101"
down_revision = "0100"


def upgrade() -> None:
    """Add the column; the sources that exist have no mask."""
    op.add_column("sources", sa.Column("mask", sa.String(64)))
    op.create_index(
        "sources_masked",
        "sources",
        ["mask"],
        sqlite_where=sa.text("mask IS NOT NULL"),
        postgresql_where=sa.text("mask IS NOT NULL"),
    )


def downgrade() -> None:
    """Drop it: the masks of sources are lost."""
    op.drop_index("sources_masked", "sources")
    op.drop_column("sources", "mask")
