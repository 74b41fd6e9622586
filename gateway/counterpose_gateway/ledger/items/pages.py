"""Pages of a run's items: in planned order, and by one look at an index for those of one state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, func, select

from counterpose_core.contract.runs import AnyItem, CommonestFailure, Item, PageOfItems
from counterpose_core.errors import NotFound
from counterpose_core.types import FINAL_ITEM_STATES, ItemKind, ItemState
from counterpose_gateway.ledger.database import cursors
from counterpose_gateway.ledger.database.engine import LedgerPart
from counterpose_gateway.ledger.tables import rows, schema

LOOKED_AT = 10_000
"""Items that one look at some kind, state or class alone reads, in about 20 ms."""

_runs = schema.runs.c
_items = schema.items.c


class ItemPages(LedgerPart):
    """The part of the ledger that shows items."""

    def item_page(
        self,
        run_id: str,
        shape: type[AnyItem],
        *,
        kind: ItemKind | None = None,
        state: ItemState | None = None,
        label: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> PageOfItems[AnyItem]:
        """Return a page of items in ordinal order; pages never repeat or skip while the run goes on.

        ``shape`` is the item of runs of this kind; items may be of a kind, state or class alone. A page of a
        kind or class may have fewer items than ``limit`` or none before the last: it looks at `LOOKED_AT`
        items at most, of the state if one is given.
        """
        since = -1 if after is None else cursors.read_ordinal(after, run_id)
        given = ((_items.kind, kind), (_items.state, state), (_items.label, label))
        wanted = [column == value for column, value in given if value is not None]
        with self._database.reading() as connection:
            run = _extent(connection, run_id)
            last: int | None = None
            if state in FINAL_ITEM_STATES:
                query = _ended(run_id, since)
                if len(wanted) > 1:
                    last = _place_after(connection, run_id, state, since)
            elif state == "leased" or (state == "pending" and run["pending"] <= LOOKED_AT):
                query = _open(run_id, since, run["stage"], state)
            else:
                query = _every(run_id, since)
                last = since + LOOKED_AT if wanted else None
            if last is not None:
                query = query.where(_items.ordinal <= last)
            query = query.where(*wanted, _items.stage + 0 <= run["stage"]).limit(limit + 1)
            found = connection.execute(query).mappings().all()
        page = [rows.item(row, shape) for row in found[:limit]]
        more: str | None = None
        if len(found) > limit:
            more = cursors.write(run_id, page[-1].ordinal)
        elif last is not None and last < run["total"] - 1:
            more = cursors.write(run_id, last)
        return PageOfItems[shape](items=page, after=more)  # type: ignore[valid-type]  # known at run time only

    def item(self, run_id: str, item_id: str, shape: type[AnyItem]) -> AnyItem:
        """Return one item of a run, in the shape of the run's kind.

        Raises:
            NotFound: the run does not exist or has no such item.
        """
        query = select(schema.items).where(_items.run_id == run_id, _items.id == item_id)
        with self._database.reading() as connection:
            opened = _items.stage <= _extent(connection, run_id)["stage"]
            row = rows.first(connection, query.where(opened))
        if row is None:
            raise NotFound(f"run {run_id!r} has no item {item_id!r}; list its items to find it")
        return rows.item(row, shape)

    def newest_items(self, run_id: str, shape: type[AnyItem], *, kind: ItemKind, limit: int) -> list[AnyItem]:
        """Return finished items of a kind, those planned last first, of `LOOKED_AT` that ended last."""
        query = select(schema.items).where(
            _items.run_id == run_id, _items.kind == kind, _items.state == "done"
        )
        with self._database.reading() as connection:
            run = _extent(connection, run_id)
            # Items are leased in their order: beyond those that have ended, nearly all are still open.
            ended = run["total"] - run["pending"]
            near = _items.ordinal.between(ended - LOOKED_AT // 2, ended + LOOKED_AT // 2)
            opened = _items.stage <= run["stage"]
            query = query.where(opened, near).order_by(_items.ordinal.desc()).limit(limit)
            found = connection.execute(query).mappings().all()
        return [rows.item(row, shape) for row in found]

    def commonest_failure(self, run_id: str) -> CommonestFailure | None:
        """Return why most of a run's failed items failed; None if none did, `NotFound` without such a run."""
        # By the index of ended items.
        failed = _items.run_id == run_id, rows.ENDED, _items.state == "failed"
        number = func.count().label("number")
        by_code = select(_items.code, number).where(*failed).group_by(_items.code)
        with self._database.reading() as connection:
            run = _extent(connection, run_id)
            if not run["failed"]:
                return None
            codes = connection.execute(by_code.order_by(number.desc(), _items.code)).all()
            code, items = codes[0]
            by_detail = select(_items.detail, number).where(*failed, _items.code.is_not_distinct_from(code))
            told = by_detail.group_by(_items.detail).order_by(number.desc(), _items.detail).limit(1)
            detail = connection.execute(told).one()[0]
        return CommonestFailure(
            code=code or "unknown", detail=detail or "", items=items,
            failed=sum(each for _, each in codes), of=run["total"],
        )  # fmt: skip

    def items(self, run_id: str, *, from_ordinal: int = 0, chunk: int = 500) -> Iterator[Item]:
        """Yield every item of a stress test in ordinal order, read in chunks."""
        yield from self.items_of(run_id, Item, from_ordinal=from_ordinal, chunk=chunk)

    def items_of(
        self, run_id: str, shape: type[AnyItem], *, from_ordinal: int = 0, chunk: int = 500
    ) -> Iterator[AnyItem]:
        """Yield every item of a run in ordinal order, in the shape of the run's kind."""
        after = cursors.write(run_id, from_ordinal - 1)
        while True:
            page = self.item_page(run_id, shape, after=after, limit=chunk)
            yield from page.items
            if page.after is None:
                return
            after = page.after


def _every(run_id: str, since: int) -> Select[*tuple[Any, ...]]:
    """Return the query for items after an ordinal in their order."""
    # A keyset, never an offset: changes of earlier items cannot shift later pages.
    query = select(schema.items).where(_items.run_id == run_id, _items.ordinal > since)
    return query.order_by(_items.ordinal)


def _ended(run_id: str, since: int) -> Select[*tuple[Any, ...]]:
    """Return the query for ended items of one state, which an index has in their order."""
    return _every(run_id, since).where(rows.ENDED)


def _open(run_id: str, since: int, stage: int, state: ItemState) -> Select[*tuple[Any, ...]]:
    """Return the query for the open items, if they are few, or for those of them that were ever leased."""
    # Added to: SQLite would rather walk over all items of the run in their order.
    place = _items.ordinal + 0
    query = select(schema.items).where(_items.run_id == run_id, rows.OPEN, place > since).order_by(place)
    if state == "leased":
        # Items that were never leased have the time 0: a million of them are passed over.
        query = query.where(_items.due_at > 0.0)
    return query.where(_items.stage.in_(range(1, stage + 1)))


def _place_after(connection: Connection, run_id: str, state: ItemState | None, since: int) -> int | None:
    """Return the ordinal of the item of a state that is `LOOKED_AT` such items after another."""
    mine = (_items.run_id == run_id) & rows.ENDED & (_items.state == state) & (_items.ordinal > since)
    place = select(_items.ordinal).where(mine).order_by(_items.ordinal).offset(LOOKED_AT - 1).limit(1)
    found: int | None = connection.execute(place).scalar()
    return found


def _extent(connection: Connection, run_id: str) -> RowMapping:
    """Return a run's stage and counts: a page must not read its configuration, which may have a megabyte."""
    mine = rows.is_own(connection, _runs.tenant)
    query = select(_runs.stage, _runs.total, _runs.pending, _runs.failed).where(
        _runs.id == run_id, rows.KEPT, mine
    )
    row = rows.first(connection, query)
    if row is None:
        raise rows.absent(connection, run_id)
    return row
