"""Note beside each run how many items it has, in a column and in a table of its own.

Revision ID: 0108
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0108"
down_revision = "0107"


def upgrade() -> None:
    """Add both, and fill them for the runs that exist."""
    op.add_column("runs", sa.Column("note", sa.String(40)))
    op.execute("UPDATE runs SET note = CAST(total AS VARCHAR(40))")
    op.create_table(
        "run_notes",
        sa.Column("run_id", sa.String(64), sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("note", sa.Text, nullable=False),
    )
    op.execute("INSERT INTO run_notes (run_id, note) SELECT id, note FROM runs")


def downgrade() -> None:
    """Drop both."""
    op.drop_table("run_notes")
    op.drop_column("runs", "note")
