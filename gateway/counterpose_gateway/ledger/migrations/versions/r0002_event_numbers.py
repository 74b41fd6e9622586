"""Number events beyond 31 bits; SQLite's numbers have 63 already.

Revision ID: 0002
"""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Widen the column and the sequence that fills it."""
    _retype("bigint")


def downgrade() -> None:
    """Narrow both again; fails where a number has grown too large."""
    _retype("integer")


def _retype(kind: str) -> None:
    if op.get_context().dialect.name == "postgresql":
        op.execute(f"ALTER TABLE events ALTER COLUMN id TYPE {kind}")
        op.execute(f"ALTER SEQUENCE events_id_seq AS {kind}")
