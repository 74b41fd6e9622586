"""Reading all items of a run as documents: a tenth of the cost of a model for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic_core import from_json
from sqlalchemy import Text, cast, select

from faultline_core.contract.runs import AnyItem
from faultline_gateway.ledger import rows, schema
from faultline_gateway.ledger.database import LedgerPart
from faultline_gateway.runs.recorded_items import RecordedItem

_items = schema.items.c
_AT_ONCE = 500
_PLAIN = [_items[name] for name in RecordedItem._fields[:-2]]
_DOCUMENTS = [cast(_items[name], Text) for name in RecordedItem._fields[-2:]]


class RecordedItems(LedgerPart):
    """The part of the ledger that summaries read."""

    def recorded_items(self, run_id: str, *, chunk: int = 1000) -> Iterator[RecordedItem]:
        """Yield every item of the run's opened stages in planned order, read in chunks."""
        # As text: the driver's reader of JSON takes three times as long.
        query = select(_items.ordinal, *_PLAIN, *_DOCUMENTS).where(_items.run_id == run_id)
        query = query.order_by(_items.ordinal).limit(chunk)
        stage = select(schema.runs.c.stage).where(schema.runs.c.id == run_id, rows.KEPT).scalar_subquery()
        after = -1
        while True:
            with self._database.reading() as connection:
                page = query.where(_items.ordinal > after, _items.stage <= stage)
                found = connection.execute(page).all()
            for row in found:
                yield RecordedItem._make((*row[1:-2], _document(row[-2]), _document(row[-1])))
            if len(found) < chunk:
                return
            after = found[-1][0]

    def items_named(self, run_id: str, shape: type[AnyItem], ids: Sequence[str]) -> list[AnyItem]:
        """Return the items of the run's opened stages that have these ids, in planned order."""
        found: list[AnyItem] = []
        stage = select(schema.runs.c.stage).where(schema.runs.c.id == run_id, rows.KEPT).scalar_subquery()
        query = select(schema.items).where(_items.run_id == run_id, _items.stage <= stage)
        with self._database.reading() as connection:
            for start in range(0, len(ids), _AT_ONCE):
                named = query.where(_items.id.in_(ids[start : start + _AT_ONCE]))
                found += [rows.item(row, shape) for row in connection.execute(named).mappings()]
        return sorted(found, key=lambda item: item.ordinal)


def _document(text: str | None) -> Any:
    return None if text is None else from_json(text)
