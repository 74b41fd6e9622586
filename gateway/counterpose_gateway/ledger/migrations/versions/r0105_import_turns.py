"""Find the open imports, and the first open shard of each: tenants take turns.

Revision ID: 0105
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0105"
down_revision = "0104"

_OPEN_SHARDS = sa.text("state IN ('pending', 'leased')")
_OPEN_IMPORTS = sa.text("state IN ('listing', 'importing')")


def upgrade() -> None:
    """Add an index of the open imports; open shards are found by their dataset, no longer by their time."""
    _create("imports_open", "imports", ["dataset"], _OPEN_IMPORTS)
    op.drop_index("import_shards_open", "import_shards")
    columns = ["dataset", "due_at", "ordinal"]
    _create("import_shards_open_of_dataset", "import_shards", columns, _OPEN_SHARDS)


def downgrade() -> None:
    """Find the open shards by their time again."""
    op.drop_index("import_shards_open_of_dataset", "import_shards")
    _create("import_shards_open", "import_shards", ["due_at", "dataset", "ordinal"], _OPEN_SHARDS)
    op.drop_index("imports_open", "imports")


def _create(name: str, table: str, columns: list[str], where: sa.TextClause) -> None:
    op.create_index(name, table, columns, sqlite_where=where, postgresql_where=where)
