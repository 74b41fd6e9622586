"""Name the group of images that are not independent, such as frames of one video.

Revision ID: 0009
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, which is null for images that stand alone, so for all that are there."""
    op.add_column("sources", sa.Column("group", sa.String(200)))


def downgrade() -> None:
    """Drop it: runs that are planned later take every image for an independent one."""
    op.drop_column("sources", "group")
