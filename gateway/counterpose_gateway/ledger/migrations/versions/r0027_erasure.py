"""Let datasets end, and note which blobs nothing may name any more.

Revision ID: 0027
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make both tables: no dataset ends."""
    op.create_table(
        "dataset_ends",
        sa.Column("dataset", sa.String(160), primary_key=True),
        sa.Column("expires_at", sa.Float(), nullable=True),
        sa.Column("deleting", sa.Boolean(), nullable=False, server_default=sa.false()),
    )
    op.create_table(
        "loose_digests",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("loosened_at", sa.Float(), nullable=False),
    )


def downgrade() -> None:
    """Drop both."""
    op.drop_table("loose_digests")
    op.drop_table("dataset_ends")
