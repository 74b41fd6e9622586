"""Jobs on Ray clusters, and their attempts.

Revision ID: 0018
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_OPEN_JOBS = sa.text("state IN ('queued', 'in_progress', 'cancelling')")


def upgrade() -> None:
    """Add both tables."""
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("cluster", sa.String(96), nullable=False),
        sa.Column("workers", sa.Integer, nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("request", sa.JSON, nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("run_id", sa.String(64)),
        sa.Column("idempotency_key", sa.String(255), unique=True),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("started_at", sa.Float),
        sa.Column("ended_at", sa.Float),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("problem", sa.JSON),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("fruitless", sa.Integer, nullable=False),
        sa.Column("progress", sa.Integer, nullable=False),
        sa.Column("fence", sa.Integer, nullable=False),
        sa.Column("look_at", sa.Float, nullable=False),
    )
    op.create_index("jobs_newest", "jobs", ["created_at", "id"])
    op.create_index(
        "jobs_to_look_at", "jobs", ["look_at"], sqlite_where=_OPEN_JOBS, postgresql_where=_OPEN_JOBS
    )
    op.create_table(
        "job_attempts",
        sa.Column("job_id", sa.String(64), sa.ForeignKey("jobs.id"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("submission_id", sa.String(128), nullable=False, unique=True),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("submitted_at", sa.Float),
        sa.Column("seen_at", sa.Float),
        sa.Column("ended_at", sa.Float),
        sa.Column("quiet_since", sa.Float, nullable=False),
        sa.Column("detail", sa.Text),
    )


def downgrade() -> None:
    """Drop them; what their workers do goes on until their runs end."""
    op.drop_table("job_attempts")
    op.drop_table("jobs")
