"""A PostgreSQL database after a test, made what it was before: a new one costs three times as much."""

from __future__ import annotations

import time
from dataclasses import dataclass

import psycopg

LEFT_SECONDS = 0.2
"""In which a connection that a test closed is gone for the server, too."""
_OTHERS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
_USED = """
    SELECT oid::regclass::text FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND pg_relation_size(oid) > 0
"""
_FORGOTTEN = """
    DELETE FROM pg_statistic
    WHERE starelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace)
"""
_SEQUENCES = "SELECT sequencename FROM pg_sequences WHERE schemaname = 'public' AND last_value IS NOT NULL"
_SCHEMA = """
    SELECT md5(string_agg(line, ';' ORDER BY line)) FROM (
      SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
      UNION ALL SELECT conrelid::regclass || pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = 'public'::regnamespace
      UNION ALL SELECT concat_ws(' ', table_name, column_name, data_type, is_nullable, column_default)
        FROM information_schema.columns WHERE table_schema = 'public'
      UNION ALL SELECT concat_ws(' ', proname, prosrc) FROM pg_proc
        WHERE pronamespace = 'public'::regnamespace
      UNION ALL SELECT concat_ws(' ', tgname, tgenabled) FROM pg_trigger WHERE NOT tgisinternal
      UNION ALL SELECT setconfig::text FROM pg_db_role_setting
        JOIN pg_database ON pg_database.oid = setdatabase WHERE datname = current_database()
    ) AS lines (line)
"""


@dataclass(frozen=True)
class Contents:
    """The schema of a database, and the rows of the tables that have some."""

    schema: str
    rows: dict[str, bytes]

    @classmethod
    def of(cls, url: str) -> Contents:
        """Read them."""
        with psycopg.connect(url) as connection:
            used = connection.execute(_USED).fetchall()
            return cls(_schema(connection), {table: _copied(connection, table) for (table,) in used})

    def restore(self, url: str) -> bool:
        """Whether the database has them again: not if its schema was changed, or someone still uses it."""
        try:
            with psycopg.connect(url, options="-c lock_timeout=2000") as connection:
                if _is_used(connection) or _schema(connection) != self.schema:
                    return False
                used = ", ".join(table for (table,) in connection.execute(_USED))
                # Unlike rows that were deleted, a truncated table says nothing of what it had.
                connection.execute(f"TRUNCATE {used} CASCADE; {_FORGOTTEN}".encode())
                for (sequence,) in connection.execute(_SEQUENCES).fetchall():
                    connection.execute(f"ALTER SEQUENCE {sequence} RESTART".encode())
                for table, data in self.rows.items():
                    with connection.cursor().copy(f"COPY {table} FROM STDIN".encode()) as copy:
                        copy.write(data)
        # The server was killed, or someone holds a lock.
        except psycopg.OperationalError:
            return False
        return True


def _copied(connection: psycopg.Connection, table: str) -> bytes:
    with connection.cursor().copy(f"COPY {table} TO STDOUT".encode()) as copy:
        return b"".join(bytes(part) for part in copy)


def _schema(connection: psycopg.Connection) -> str:
    (found,) = connection.execute(_SCHEMA).fetchone() or ("",)
    return str(found)


def _is_used(connection: psycopg.Connection) -> bool:
    until = time.monotonic() + LEFT_SECONDS
    while connection.execute(_OTHERS).fetchone() != (0,):
        if time.monotonic() > until:
            return True
        time.sleep(0.005)
    return False
