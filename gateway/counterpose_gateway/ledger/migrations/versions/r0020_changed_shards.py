"""Count how often a shard of an import was found changed.

Revision ID: 0020
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the count; a shard that is being read begins at none."""
    op.add_column("import_shards", sa.Column("changes", sa.Integer(), nullable=False, server_default="0"))


def downgrade() -> None:
    """Drop it."""
    op.drop_column("import_shards", "changes")
