"""Opaque cursors: where the next page of a listing begins."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, RowMapping, Table, select

from counterpose_core.errors import InvalidRequest
from counterpose_gateway.records.tenants import DEFAULT_TENANT


def write(*position: str | float) -> str:
    """Pack a position into an opaque cursor."""
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")


def write_pair(moment: float, name: str, tenant: str | None) -> str:
    """Pack the time and the id of the last entry of a page; ``tenant``: whose listing it is, None for all."""
    return write(moment, name, *([] if tenant in (None, DEFAULT_TENANT) else [str(tenant)]))


def read_pair(cursor: str, tenant: str | None) -> tuple[float, str]:
    """Return the time and the id that `write_pair` packed.

    Raises:
        InvalidRequest: the gateway did not make the cursor for this tenant.
    """
    match _position(cursor):
        # Neither database compares a time that is not finite, or a truth value in place of a time.
        case [float(moment), str(name), *owner] if math.isfinite(moment):
            if owner == ([] if tenant in (None, DEFAULT_TENANT) else [tenant]):
                return moment, name
    raise _refusal(cursor)


def page_of(
    connection: Connection, table: Table, tenant: str | None, after: str | None, limit: int, *wanted: Any
) -> tuple[Sequence[RowMapping], str | None]:
    """Return a page of a table's rows, newest first, and the cursor of the next one, None after the last.

    Args:
        connection: a transaction.
        table: has the columns ``created_at`` and ``id``.
        tenant: whose listing it is, None for all.
        after: the cursor of the page before, if any.
        limit: the most rows.
        wanted: the conditions on them.

    Raises:
        InvalidRequest: the gateway did not make the cursor for this tenant.
    """
    at, key = table.c.created_at, table.c.id
    # One row more than requested shows whether there is a next page.
    query = select(table).where(*wanted).order_by(at.desc(), key.desc()).limit(limit + 1)
    if after is not None:
        created_at, last = read_pair(after, tenant)
        query = query.where((at < created_at) | ((at == created_at) & (key < last)))
    found = connection.execute(query).mappings().all()
    page = found[:limit]
    more = len(found) > limit
    return page, write_pair(page[-1]["created_at"], page[-1]["id"], tenant) if more else None


def read_ordinal(cursor: str, run_id: str) -> int:
    """Return the ordinal that `write` packed for this run.

    Raises:
        InvalidRequest: the cursor does not belong to this run.
    """
    match _position(cursor):
        # The cursor is bound to its run; beyond 31 bits PostgreSQL would fail on the query itself.
        case [str(owner), int(ordinal)] if owner == run_id and abs(ordinal) < 2**31:
            return ordinal
    raise _refusal(cursor)


def _position(cursor: str) -> object:
    try:
        return json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError) as error:
        raise _refusal(cursor) from error


def _refusal(cursor: str) -> InvalidRequest:
    return InvalidRequest(f"the cursor {cursor[:64]!r} is not one of this listing", pointer="/after")
