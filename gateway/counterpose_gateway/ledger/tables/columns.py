"""What the ledger's tables are made of; text that some database cannot store is replaced as it is written."""

from __future__ import annotations

from sqlalchemy import Dialect, Index, MetaData, String, Text, TextClause
from sqlalchemy.types import TypeDecorator

metadata = MetaData()


def partial(name: str, *columns: str, where: TextClause) -> Index:
    """Return an index of the rows of a condition alone."""
    return Index(name, *columns, sqlite_where=where, postgresql_where=where)


def storable(value: str) -> str:
    """Return text with U+FFFD for NUL, which PostgreSQL refuses, and "?" for halves of surrogate pairs."""
    return value if value.isascii() and "\0" not in value else _replaced(value)


def _replaced(value: str) -> str:
    return value.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


class _StorableText(TypeDecorator[str]):
    """Text in which characters that some database or encoding cannot store are replaced."""

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Write `storable` text."""
        return None if value is None else storable(value)


class Line(_StorableText):
    """Storable text of limited length."""

    impl = String
    cache_ok = True


class Prose(_StorableText):
    """Storable text of any length."""

    impl = Text
    cache_ok = True
