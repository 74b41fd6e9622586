"""Keep webhooks, and the outbox of what they are told.

Revision ID: 0023
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

_PENDING = sa.text("state = 'pending'")


def upgrade() -> None:
    """Add both tables; runs that ended before are told to nobody."""
    op.create_table(
        "webhooks",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("url", sa.String(2000), nullable=False),
        sa.Column("events", sa.JSON(), nullable=False),
        sa.Column("secret", sa.String(100), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "webhook_deliveries",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("message", sa.String(64), nullable=False),
        sa.Column("webhook_id", sa.String(64), nullable=False),
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("event", sa.String(32), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.Float(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("delivered_at", sa.Float()),
        sa.Column("failure", sa.String(32)),
        sa.Column("detail", sa.Text()),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("message"),
        sa.ForeignKeyConstraint(["webhook_id"], ["webhooks.id"]),
        sqlite_autoincrement=True,
    )
    op.create_index("webhook_deliveries_of_webhook", "webhook_deliveries", ["webhook_id", "id"])
    op.create_index("webhook_deliveries_of_run", "webhook_deliveries", ["run_id", "id"])
    op.create_index(
        "webhook_deliveries_due", "webhook_deliveries", ["due_at"],
        sqlite_where=_PENDING, postgresql_where=_PENDING,
    )  # fmt: skip


def downgrade() -> None:
    """Drop both."""
    op.drop_table("webhook_deliveries")
    op.drop_table("webhooks")
