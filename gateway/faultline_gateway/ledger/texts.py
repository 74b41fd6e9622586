"""Text columns that hold the same text on every database."""

from __future__ import annotations

from sqlalchemy import Dialect, String, Text
from sqlalchemy.types import TypeDecorator


class Line(TypeDecorator[str]):
    """Text of limited length; characters that some database or encoding cannot store are replaced."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Write U+FFFD for NUL, which PostgreSQL refuses, and "?" for halves of surrogate pairs."""
        return None if value is None else _keepable(value)


class Prose(TypeDecorator[str]):
    """Text of any length, with the same replacements."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Write U+FFFD for NUL, which PostgreSQL refuses, and "?" for halves of surrogate pairs."""
        return None if value is None else _keepable(value)


def _keepable(value: str) -> str:
    return value.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
