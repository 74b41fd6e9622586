"""Run by Alembic, on the connection that the ledger hands over."""

from __future__ import annotations

from alembic import context

from counterpose_gateway.ledger.tables.schema import metadata

# The connection is already within the ledger's own transaction: all revisions land together or not at all.
context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
