"""Note beside each source of a dataset of pairs what it was made of.

Revision ID: 0102
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0102"
down_revision = "0101"


def upgrade() -> None:
    """Add the column; no source that exists is one of a pair."""
    op.add_column("sources", sa.Column("pair", sa.Text))
    there = sa.text("pair IS NOT NULL")
    op.create_index(
        "sources_paired", "sources", ["dataset", "id"], sqlite_where=there, postgresql_where=there
    )


def downgrade() -> None:
    """Drop it: what the images of pairs were made of is lost."""
    op.drop_index("sources_paired", "sources")
    op.drop_column("sources", "pair")
