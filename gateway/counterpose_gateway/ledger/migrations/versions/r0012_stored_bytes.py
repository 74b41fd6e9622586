"""Keep how many bytes a dataset's images take as stored, which its quota counts.

Revision ID: 0012
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

# Until now images were stored raw: a header of 18 bytes and three bytes a pixel.
COUNT_AS_RAW = """
UPDATE datasets SET stored_bytes = (
    SELECT COALESCE(SUM(18 + CAST(3 AS BIGINT) * sources.width * sources.height), 0)
    FROM sources WHERE sources.dataset = datasets.name
)
"""


def upgrade() -> None:
    """Add the column and count what is stored."""
    op.add_column("datasets", sa.Column("stored_bytes", sa.BigInteger(), nullable=False, server_default="0"))
    op.execute(COUNT_AS_RAW)


def downgrade() -> None:
    """Drop it."""
    op.drop_column("datasets", "stored_bytes")
