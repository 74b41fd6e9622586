"""Keep imports of datasets from a URL and their shards, and make digests when they are asked for.

Revision ID: 0017
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

_OPEN_SHARDS = sa.text("state IN ('pending', 'leased')")


def upgrade() -> None:
    """Add the column and make the tables; the digests of the datasets that exist stay as they are."""
    op.add_column("datasets", sa.Column("changes", sa.Integer(), nullable=False, server_default="0"))
    op.create_table(
        "imports",
        sa.Column("dataset", sa.String(96), sa.ForeignKey("datasets.name"), nullable=False),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("layout", sa.String(32), nullable=False),
        sa.Column("names", sa.JSON(none_as_null=True)),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("listed", sa.Integer(), nullable=False),
        sa.Column("mark", sa.Text()),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.Float(), nullable=False),
        sa.Column("problem", sa.JSON(none_as_null=True)),
        sa.PrimaryKeyConstraint("dataset"),
    )
    op.create_table(
        "import_shards",
        sa.Column("dataset", sa.String(96), sa.ForeignKey("imports.dataset"), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("label", sa.Text()),
        sa.Column("files", sa.JSON(none_as_null=True)),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.Float(), nullable=False),
        sa.Column("stamp", sa.Text()),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("taken", sa.Integer(), nullable=False),
        sa.Column("rejected", sa.Integer(), nullable=False),
        sa.Column("rejections", sa.JSON(none_as_null=True)),
        sa.Column("problem", sa.JSON(none_as_null=True)),
        sa.PrimaryKeyConstraint("dataset", "ordinal"),
    )
    op.create_index(
        "import_shards_open", "import_shards", ["due_at", "dataset", "ordinal"],
        sqlite_where=_OPEN_SHARDS, postgresql_where=_OPEN_SHARDS,
    )  # fmt: skip


def downgrade() -> None:
    """Drop them; what was imported stays."""
    op.drop_table("import_shards")
    op.drop_table("imports")
    op.drop_column("datasets", "changes")
