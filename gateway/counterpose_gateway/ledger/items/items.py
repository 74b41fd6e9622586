"""Items: leased by workers, ended by outcomes, and read in pages, as documents or one by one.

Pages of a run's items: in planned order, and by one look at an index for those of one state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic_core import from_json
from sqlalchemy import ColumnElement, Connection, RowMapping, ScalarSelect, Select, Text, cast, func, select

from counterpose_core.contract.runs import AnyItem, CommonestFailure, Item, PageOfItems
from counterpose_core.errors import NotFound
from counterpose_core.types import FINAL_ITEM_STATES, ItemKind, ItemState
from counterpose_gateway.ledger.database import cursors
from counterpose_gateway.ledger.database.session import Session
from counterpose_gateway.ledger.items import leases, outcomes
from counterpose_gateway.ledger.tables import rows, schema
from counterpose_gateway.records.items import LeasedGroup, no_lease_left
from counterpose_gateway.records.outcomes import Ended, Outcome, lease_lost
from counterpose_gateway.records.recorded_items import RecordedItem, Stamp

_items = schema.items.c
_AT_ONCE = 500
_STAMP = [_items[name] for name in Stamp._fields[1:]]
_PLAIN = [_items[name] for name in RecordedItem._fields[:-2]]
_DOCUMENTS = [cast(_items[name], Text) for name in RecordedItem._fields[-2:]]


class Items:
    """The items of runs."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def lease(self, worker: str, *, seconds: float, run_id: str | None = None) -> LeasedGroup | None:
        """Lease all ready items of one group of one run, as `lease_many`."""
        return next(iter(self.lease_many(worker, seconds=seconds, most=1, run_id=run_id)), None)

    def lease_many(
        self, worker: str, *, seconds: float, most: int, run_id: str | None = None
    ) -> list[LeasedGroup]:
        """Lease up to ``most`` groups of one run, each with all its ready items, in one transaction.

        The run that was served longest ago comes first. An item's last attempt is leased alone: if it kills
        its worker, it takes no other item with it.
        """
        return leases.lease_groups(self._session, worker, seconds=seconds, most=most, run_id=run_id)

    def renew(self, group: LeasedGroup, seconds: float) -> list[str]:
        """Renew the leases that are still ours and return their item ids.

        Raises:
            LeaseLost: no lease is left: all items were recorded, cancelled or leased to others.
        """
        kept = self.renew_many([group], seconds)
        if not kept:
            raise no_lease_left(group)
        return kept

    def renew_many(self, groups: Sequence[LeasedGroup], seconds: float) -> list[str]:
        """Renew what is still ours of groups of one run, in one transaction, and return the item ids.

        Raises:
            LeaseLost: the run is being cancelled.
        """
        return leases.renew_groups(self._session, groups, seconds)

    def release(self, group: LeasedGroup) -> None:
        """Return the items that are still leased: a worker that stops cleanly costs no attempt."""
        leases.release(self._session, group)

    def finish(self, item_id: str, fence: int, outcome: Outcome) -> None:
        """Record the one outcome of a leased item, as `finish_many`."""
        self.finish_many([Ended(item_id=item_id, fence=fence, outcome=outcome)])

    def finish_many(self, ended: Sequence[Ended]) -> None:
        """Record outcomes of leased items of one run in one transaction; the run ends with its last item.

        Raises:
            LeaseLost: some items were leased again, cancelled or recorded since; the others are recorded.
        """
        if lost := self.record_many(ended):
            raise lease_lost(lost)

    def record_many(self, ended: Sequence[Ended]) -> list[Ended]:
        """Record outcomes as `finish_many`, and return those whose leases are lost."""
        return outcomes.record(self._session, ended)

    def page(
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
        kind or class may have fewer items than ``limit`` or none before the last: it looks at
        `LOOKED_AT` items at most, of the state if one is given.
        """
        since = -1 if after is None else cursors.read_ordinal(after, run_id)
        given = ((_items.kind, kind), (_items.state, state), (_items.label, label))
        wanted = [column == value for column, value in given if value is not None]
        with self._session.reading() as connection:
            run = extent(connection, run_id)
            last: int | None = None
            if state in FINAL_ITEM_STATES:
                query = ended(run_id, since)
                if len(wanted) > 1:
                    last = place_after(connection, run_id, state, since)
            elif state == "leased" or (state == "pending" and run["pending"] <= LOOKED_AT):
                query = opened(run_id, since, run["stage"], state)
            else:
                query = every(run_id, since)
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

    def get(self, run_id: str, item_id: str, shape: type[AnyItem]) -> AnyItem:
        """Return one item of a run, in the shape of the run's kind.

        Raises:
            NotFound: the run does not exist or has no such item.
        """
        query = select(schema.items).where(_items.run_id == run_id, _items.id == item_id)
        with self._session.reading() as connection:
            opened = _items.stage <= extent(connection, run_id)["stage"]
            row = rows.first(connection, query.where(opened))
        if row is None:
            raise NotFound(f"run {run_id!r} has no item {item_id!r}; list its items to find it")
        return rows.item(row, shape)

    def newest(self, run_id: str, shape: type[AnyItem], *, kind: ItemKind, limit: int) -> list[AnyItem]:
        """Return finished items of a kind, those planned last first, of `LOOKED_AT` that ended last."""
        query = select(schema.items).where(
            _items.run_id == run_id, _items.kind == kind, _items.state == "done"
        )
        with self._session.reading() as connection:
            run = extent(connection, run_id)
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
        with self._session.reading() as connection:
            run = extent(connection, run_id)
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

    def all(self, run_id: str, *, from_ordinal: int = 0, chunk: int = 500) -> Iterator[Item]:
        """Yield every item of a stress test in ordinal order, read in chunks."""
        yield from self.of(run_id, Item, from_ordinal=from_ordinal, chunk=chunk)

    def of(
        self, run_id: str, shape: type[AnyItem], *, from_ordinal: int = 0, chunk: int = 500
    ) -> Iterator[AnyItem]:
        """Yield every item of a run in ordinal order, in the shape of the run's kind."""
        after = cursors.write(run_id, from_ordinal - 1)
        while True:
            page = self.page(run_id, shape, after=after, limit=chunk)
            yield from page.items
            if page.after is None:
                return
            after = page.after

    def recorded(
        self, run_id: str, *, first: int = 0, number: int | None = None, chunk: int = 1000
    ) -> Iterator[RecordedItem]:
        """Yield the items of the run's opened stages in planned order, read in chunks.

        Those from the place ``first`` on: all, or ``number`` of them.
        """
        # As text: the driver's reader of JSON takes three times as long.
        told, asked = None, None
        for row in self._in_order(run_id, [*_PLAIN, *_DOCUMENTS], first, number, chunk):
            if row[-2] != told:
                # Most items of a stage have the instruction of the item before.
                told, asked = row[-2], _document(row[-2])
            yield RecordedItem._make((*row[1:-2], asked, _document(row[-1])))

    def stamps(
        self, run_id: str, *, first: int = 0, number: int | None = None, chunk: int = 5000
    ) -> Iterator[Stamp]:
        """Yield the stamps of the same items; this reads none of their documents."""
        return map(Stamp._make, self._in_order(run_id, _STAMP, first, number, chunk))

    def named(self, run_id: str, shape: type[AnyItem], ids: Sequence[str]) -> list[AnyItem]:
        """Return the items of the run's opened stages that have these ids, in planned order."""
        found: list[AnyItem] = []
        stage = self._stage(run_id)
        query = select(schema.items).where(_items.run_id == run_id, _items.stage <= stage)
        with self._session.reading() as connection:
            for start in range(0, len(ids), _AT_ONCE):
                named = query.where(_items.id.in_(ids[start : start + _AT_ONCE]))
                found += [rows.item(row, shape) for row in connection.execute(named).mappings()]
        return sorted(found, key=lambda item: item.ordinal)

    def _in_order(
        self, run_id: str, columns: Sequence[ColumnElement[Any]], first: int, number: int | None, chunk: int
    ) -> Iterator[Sequence[Any]]:
        """Yield an item's ordinal with these columns, in the order of ordinals."""
        query = select(_items.ordinal, *columns).where(_items.run_id == run_id)
        if number is not None:
            query = query.where(_items.ordinal < first + number)
        query = query.order_by(_items.ordinal).limit(chunk)
        stage = self._stage(run_id)
        after = first - 1
        while True:
            with self._session.reading() as connection:
                page = query.where(_items.ordinal > after, _items.stage <= stage)
                found = connection.execute(page).all()
            yield from found
            if len(found) < chunk:
                return
            after = found[-1][0]

    def _stage(self, run_id: str) -> ScalarSelect[int]:
        """The stage of a run; null, so that no item is below it, if there is none to be seen."""
        mine = [] if self._session.tenant is None else [schema.runs.c.tenant == self._session.tenant]
        return (
            select(schema.runs.c.stage).where(schema.runs.c.id == run_id, rows.KEPT, *mine).scalar_subquery()
        )


def _document(text: str | None) -> Any:
    return None if text is None else from_json(text)


LOOKED_AT = 10_000
"""Items that one look at some kind, state or class alone reads, in about 20 ms."""

_runs = schema.runs.c


def every(run_id: str, since: int) -> Select[*tuple[Any, ...]]:
    """Return the query for items after an ordinal in their order."""
    # A keyset, never an offset: changes of earlier items cannot shift later pages.
    query = select(schema.items).where(_items.run_id == run_id, _items.ordinal > since)
    return query.order_by(_items.ordinal)


def ended(run_id: str, since: int) -> Select[*tuple[Any, ...]]:
    """Return the query for ended items of one state, which an index has in their order."""
    return every(run_id, since).where(rows.ENDED)


def opened(run_id: str, since: int, stage: int, state: ItemState) -> Select[*tuple[Any, ...]]:
    """Return the query for the open items, if they are few, or for those of them that were ever leased."""
    # Added to: SQLite would rather walk over all items of the run in their order.
    place = _items.ordinal + 0
    query = select(schema.items).where(_items.run_id == run_id, rows.OPEN, place > since).order_by(place)
    if state == "leased":
        # Items that were never leased have the time 0: a million of them are passed over.
        query = query.where(_items.due_at > 0.0)
    return query.where(_items.stage.in_(range(1, stage + 1)))


def place_after(connection: Connection, run_id: str, state: ItemState | None, since: int) -> int | None:
    """Return the ordinal of the item of a state that is `LOOKED_AT` such items after another."""
    mine = (_items.run_id == run_id) & rows.ENDED & (_items.state == state) & (_items.ordinal > since)
    place = select(_items.ordinal).where(mine).order_by(_items.ordinal).offset(LOOKED_AT - 1).limit(1)
    found: int | None = connection.execute(place).scalar()
    return found


def extent(connection: Connection, run_id: str) -> RowMapping:
    """Return a run's stage and counts: a page must not read its configuration, which may have a megabyte."""
    mine = rows.is_own(connection, _runs.tenant)
    query = select(_runs.stage, _runs.total, _runs.pending, _runs.failed).where(
        _runs.id == run_id, rows.KEPT, mine
    )
    row = rows.first(connection, query)
    if row is None:
        raise rows.absent(connection, run_id)
    return row
