"""The revisions of the ledger's schema, as its migrations name them."""

from __future__ import annotations

from pathlib import Path

from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from counterpose_core.errors import InvalidRequest


def migration_config() -> Config:
    """Return Alembic's configuration of the ledger's migrations."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    return config


def known_revisions(config: Config) -> list[str]:
    """Return every revision, the newest first."""
    return [each.revision for each in ScriptDirectory.from_config(config).walk_revisions()]


def refuse_newer(connection: Connection, config: Config) -> None:
    """Check that this version knows the revision of the database.

    Raises:
        InvalidRequest: a newer version has written it.
    """
    found = MigrationContext.configure(connection).get_current_revision()
    known = known_revisions(config)
    if found is not None and found not in known:
        raise InvalidRequest(
            f"the ledger is at revision {found!r}, which a newer version has written; install that version, "
            f"or run its `counterpose-gateway roll-back {known[0]}` first"
        )
