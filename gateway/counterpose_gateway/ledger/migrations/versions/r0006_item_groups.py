"""Name the group of items that one worker leases together.

Revision ID: 0006
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_OPEN = sa.text("state IN ('pending', 'leased')")


def upgrade() -> None:
    """Rename the column, which both databases do without rewriting the table, and its index."""
    _rename("source_id", "item_group", old_index="items_open_of_source", new_index="items_open_of_group")


def downgrade() -> None:
    """Give both their old names back."""
    _rename("item_group", "source_id", old_index="items_open_of_group", new_index="items_open_of_source")


def _rename(old: str, new: str, *, old_index: str, new_index: str) -> None:
    op.drop_index(old_index, "items")
    op.execute(f"ALTER TABLE items RENAME COLUMN {old} TO {new}")
    op.create_index(new_index, "items", ["run_id", new], sqlite_where=_OPEN, postgresql_where=_OPEN)
