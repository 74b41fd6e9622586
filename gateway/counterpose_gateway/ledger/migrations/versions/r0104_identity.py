"""Give the ledger an id, by which its store knows it, and count what tenants keep beside their datasets.

Revision ID: 0104
"""

from __future__ import annotations

import uuid

import sqlalchemy as sa
from alembic import op

revision = "0104"
down_revision = "0103"


def upgrade() -> None:
    """Add both; what was kept before is not counted, as its sizes are not known here."""
    identity = op.create_table(
        "ledger_identity",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("last_event", sa.BigInteger, nullable=False, server_default="0"),
        if_not_exists=True,
    )
    if op.get_bind().execute(sa.text("SELECT 1 FROM ledger_identity")).first() is None:
        op.execute(sa.insert(identity).values(id=uuid.uuid4().hex))
    op.create_table(
        "kept_bytes",
        sa.Column("tenant", sa.String(48), primary_key=True),
        sa.Column("until", sa.Float, primary_key=True),
        sa.Column("amount", sa.BigInteger, nullable=False),
    )
    op.create_index("datasets_of_tenant", "datasets", ["tenant"])


def downgrade() -> None:
    """Drop the counts; the id stays, or the store would be another ledger's after the next upgrade."""
    op.drop_index("datasets_of_tenant", "datasets")
    op.drop_table("kept_bytes")
