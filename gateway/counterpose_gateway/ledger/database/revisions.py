"""The revisions of the ledger's schema, as its migrations name them."""

from __future__ import annotations

import os
from pathlib import Path

from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from counterpose_core.errors import InvalidRequest

MIGRATIONS = Path(__file__).parent.parent / "migrations"
VERSIONS = (MIGRATIONS / "versions",)
"""The folders with the revisions."""


def migration_config() -> Config:
    """Return Alembic's configuration of the ledger's migrations."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("version_locations", os.pathsep.join(map(str, VERSIONS)))
    config.set_main_option("path_separator", "os")
    return config


def known_revisions(config: Config) -> list[str]:
    """Return every revision, the newest first."""
    return [each.revision for each in ScriptDirectory.from_config(config).walk_revisions()]


def revision_of(connection: Connection, config: Config) -> str | None:
    """Return the revision of the database, which this version knows; None if the database is new.

    Raises:
        InvalidRequest: a newer version has written it, or one from before the first release.
    """
    revision = MigrationContext.configure(connection).get_current_revision()
    known = known_revisions(config)
    if revision is None or revision in known:
        return revision
    if revision < known[-1]:
        raise InvalidRequest(
            f"the ledger is at revision {revision!r}, which a version before the first release has written; "
            "move its file away, or name an empty database in COUNTERPOSE_DATABASE_URL, and start again with "
            "--accept-ledger"
        )
    raise InvalidRequest(
        f"the ledger is at revision {revision!r}, which a newer version has written; install that version, "
        f"or run its `counterpose-gateway roll-back {known[0]}` first"
    )
