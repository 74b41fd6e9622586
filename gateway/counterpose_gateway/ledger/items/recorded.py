"""Reading all items of a run as documents: a tenth of the cost of a model for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic_core import from_json
from sqlalchemy import ColumnElement, ScalarSelect, Text, cast, select

from counterpose_core.contract.runs import AnyItem
from counterpose_gateway.ledger.database.engine import LedgerPart
from counterpose_gateway.ledger.tables import rows, schema
from counterpose_gateway.records.recorded_items import RecordedItem, Stamp

_items = schema.items.c
_AT_ONCE = 500
_STAMP = [_items[name] for name in Stamp._fields[1:]]
_PLAIN = [_items[name] for name in RecordedItem._fields[:-2]]
_DOCUMENTS = [cast(_items[name], Text) for name in RecordedItem._fields[-2:]]


class RecordedItems(LedgerPart):
    """The part of the ledger that summaries read."""

    def recorded_items(
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

    def item_stamps(
        self, run_id: str, *, first: int = 0, number: int | None = None, chunk: int = 5000
    ) -> Iterator[Stamp]:
        """Yield the stamps of the same items; this reads none of their documents."""
        return map(Stamp._make, self._in_order(run_id, _STAMP, first, number, chunk))

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
            with self._database.reading() as connection:
                page = query.where(_items.ordinal > after, _items.stage <= stage)
                found = connection.execute(page).all()
            yield from found
            if len(found) < chunk:
                return
            after = found[-1][0]

    def _stage(self, run_id: str) -> ScalarSelect[int]:
        """The stage of a run; null, so that no item is below it, if there is none to be seen."""
        mine = [] if self._tenant is None else [schema.runs.c.tenant == self._tenant]
        return (
            select(schema.runs.c.stage).where(schema.runs.c.id == run_id, rows.KEPT, *mine).scalar_subquery()
        )

    def items_named(self, run_id: str, shape: type[AnyItem], ids: Sequence[str]) -> list[AnyItem]:
        """Return the items of the run's opened stages that have these ids, in planned order."""
        found: list[AnyItem] = []
        stage = self._stage(run_id)
        query = select(schema.items).where(_items.run_id == run_id, _items.stage <= stage)
        with self._database.reading() as connection:
            for start in range(0, len(ids), _AT_ONCE):
                named = query.where(_items.id.in_(ids[start : start + _AT_ONCE]))
                found += [rows.item(row, shape) for row in connection.execute(named).mappings()]
        return sorted(found, key=lambda item: item.ordinal)


def _document(text: str | None) -> Any:
    return None if text is None else from_json(text)
