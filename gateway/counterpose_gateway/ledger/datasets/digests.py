"""The digest of a dataset: read as a stream and in order, so that a million images take no more memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Select, and_, select

from counterpose_gateway.ledger.tables import schema

_READ_AT_ONCE = 5_000
_sources = schema.sources.c


def digest_of(connection: Connection, name: str, classes: Sequence[str]) -> str:
    """Return the digest over classes, ids of the sources and, if there are any, their groups and masks.

    It is that of `cache_key` with these inputs, because stored configurations hold such digests.
    """
    mine = _sources.dataset == name
    grouped = and_(mine, schema.GROUPED_SOURCES, _sources.group != "")
    has_groups = connection.execute(select(_sources.id).where(grouped).limit(1)).first() is not None
    counted = hashlib.sha256()

    def feed(text: str) -> None:
        counted.update(text.encode())

    feed('{"classes":' + _json(list(classes)))
    if has_groups:
        feed(',"groups":')
        _feed_list(feed, _pages(connection, select(_sources.id, _sources.group).where(grouped)))
    masked = and_(mine, schema.MASKED_SOURCES)
    if connection.execute(select(_sources.id).where(masked).limit(1)).first() is not None:
        feed(',"masks":')
        _feed_list(feed, _pages(connection, select(_sources.id, _sources.mask).where(masked)))
    feed(',"sources":')
    pages = _pages(connection, select(_sources.id).where(mine))
    _feed_list(feed, ([row[0] for row in page] for page in pages))
    feed("}")
    return counted.hexdigest()


def empty_digest(classes: Sequence[str]) -> str:
    """Return the digest of a dataset without sources."""
    return hashlib.sha256(('{"classes":' + _json(list(classes)) + ',"sources":[]}').encode()).hexdigest()


def _pages(connection: Connection, query: Select[*tuple[Any, ...]]) -> Iterator[list[list[Any]]]:
    # In the order of the ids, which are hexadecimal digits: the primary key has that order.
    last: str | None = None
    while True:
        page = query if last is None else query.where(_sources.id > last)
        found = connection.execute(page.order_by(_sources.id).limit(_READ_AT_ONCE)).all()
        if found:
            yield [list(row) for row in found]
        if len(found) < _READ_AT_ONCE:
            return
        last = found[-1].id


def _feed_list(feed: Callable[[str], None], pages: Iterable[list[Any]]) -> None:
    feed("[")
    for number, page in enumerate(pages):
        # Written page by page: a call for each entry would take most of the time.
        feed(("," if number else "") + _json(page)[1:-1])
    feed("]")


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
