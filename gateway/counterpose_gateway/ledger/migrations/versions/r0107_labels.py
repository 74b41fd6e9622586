"""Keep further labels of an image, and of the items that are made from it.

Revision ID: 0107
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0107"
down_revision = "0106"


def upgrade() -> None:
    """Add both; images of before have one label."""
    op.add_column("sources", sa.Column("labels", sa.Text))
    op.add_column("items", sa.Column("labels", sa.JSON(none_as_null=True)))
    there = sa.text("labels IS NOT NULL")
    op.create_index(
        "sources_labelled", "sources", ["dataset", "id"], sqlite_where=there, postgresql_where=there
    )


def downgrade() -> None:
    """Drop both: images have one label again."""
    op.drop_index("sources_labelled", "sources")
    op.drop_column("items", "labels")
    op.drop_column("sources", "labels")
