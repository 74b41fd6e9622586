"""Know what tenants may use in a month, and count what they use from now on.

Revision ID: 0028
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make both tables: no tenant has a quota, and none has used anything yet."""
    op.create_table(
        "tenant_quotas",
        sa.Column("tenant", sa.String(48), primary_key=True),
        sa.Column("images", sa.BigInteger(), nullable=True),
        sa.Column("gpu_seconds", sa.Float(), nullable=True),
    )
    op.create_table(
        "tenant_usage",
        sa.Column("tenant", sa.String(48), primary_key=True),
        sa.Column("month", sa.String(7), primary_key=True),
        sa.Column("shard", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("images", sa.BigInteger(), nullable=False),
        sa.Column("gpu_seconds", sa.Float(), nullable=False),
    )


def downgrade() -> None:
    """Drop both."""
    op.drop_table("tenant_usage")
    op.drop_table("tenant_quotas")
