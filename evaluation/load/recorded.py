"""Recorded runs of any size: some sources that the worker wrote, varied, then copied by the database."""

from __future__ import annotations

import copy
import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, insert, select, text

from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.tables import schema
from fakes.gateway import fake_gateway

WRITTEN = 6
"""Images of each of the fakes' four classes that a worker takes to the end."""

VARIED = 7_000
"""Items whose predictions and words are drawn: further ones are copies of them, from other sources."""

WORDS = ("grass", "snow", "sand", "water", "road", "wood", "stone", "blue", "red", "striped", "broken", "old")
_COPIED_AT_ONCE = 500
_BODY = {"dataset": "demo", "classifiers": ["steady", "leaning"], "lance_r_edits_per_image": 0, "seed": 3}

Row = dict[str, Any]


async def load_recorded(ledger: Ledger, url: str, items: int) -> str:
    """Make an ended stress test of so many done items and return its id.

    ``url`` is the address of the ledger's database.
    """
    run, written, event = await _written()
    rows = _varied(run, written, min(items, VARIED))
    counts = {"total": items, "done": items}
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    try:
        with engine.begin() as connection:
            connection.execute(insert(schema.runs), [run | counts])
            for start in range(0, len(rows), _COPIED_AT_ONCE):
                connection.execute(insert(schema.items), rows[start : start + _COPIED_AT_ONCE])
            _copy(connection, run["id"], len(rows), items)
            connection.execute(insert(schema.events), [event | {"counts": event["counts"] | counts}])
    finally:
        engine.dispose()
    return str(run["id"])


async def _written() -> tuple[Row, list[Row], Row]:
    """The rows of a run that a worker took to its end: the run, its items, and its last event."""
    with tempfile.TemporaryDirectory() as folder:
        async with fake_gateway(Path(folder)) as gateway:
            await gateway.upload("demo", WRITTEN)
            answer = await gateway.http.post("/v1/stress-tests", json=_BODY)
            await gateway.worker().work_off()
            engine = create_engine(f"sqlite:///{folder}/ledger.db")
            try:
                return rows_of(engine, answer.json()["id"])
            finally:
                engine.dispose()


def rows_of(engine: Engine, run_id: str) -> tuple[Row, list[Row], Row]:
    """The rows of a run: its own, its items in order, and its last event."""
    with engine.connect() as connection:
        run = connection.execute(select(schema.runs).where(schema.runs.c.id == run_id)).mappings().one()
        items = select(schema.items).where(schema.items.c.run_id == run_id).order_by(schema.items.c.ordinal)
        events = select(schema.events).where(schema.events.c.run_id == run_id)
        last = connection.execute(events.order_by(schema.events.c.id.desc()).limit(1)).mappings().one()
        event = {name: value for name, value in last.items() if name != "id"}
        return dict(run), [dict(row) for row in connection.execute(items).mappings()], event


def _varied(run: Row, written: Sequence[Row], number: int) -> list[Row]:
    generator = random.Random(0)
    classes = run["config"]["classes"]
    groups: dict[str, list[Row]] = {}
    for row in written:
        groups.setdefault(row["item_group"], []).append(row)
    rows: list[Row] = []
    while len(rows) < number:
        source = len(rows)
        before: dict[str, Any] = {}
        for row in list(groups.values())[source % len(groups)][: number - len(rows)]:
            ordinal = len(rows)
            own = {"ordinal": ordinal, "id": f"{run['id']}.{ordinal}", "item_key": f"key-{ordinal}"}
            result = _result(row, before, classes, generator)
            rows.append({**row, **own, "item_group": f"{source:016x}", "result": result})
    return rows


def _result(row: Row, before: dict[str, Any], classes: Sequence[str], generator: random.Random) -> Any:
    result = copy.deepcopy(row["result"])
    for name in result["predictions"]:
        original = before.setdefault(name, prediction(row["label"], classes, generator))
        result["original_predictions"][name] = original
        result["predictions"][name] = prediction(row["label"], classes, generator)
    if row["edit_type"] is not None:
        for span in (*result["removed"], *result["added"]):
            span["words"] = [generator.choice(WORDS)]
    return result


def prediction(label: str, classes: Sequence[str], generator: random.Random) -> Mapping[str, Any]:
    """A drawn prediction with the five best of ``classes``, of which ``label`` is the true one."""
    score = generator.random()
    others = [(name, (1.0 - score) / (len(classes) - 1)) for name in classes if name != label]
    ranked = sorted([(label, score), *others], key=lambda pair: -pair[1])
    rank = [name for name, _ in ranked].index(label) + 1
    shown = [list(pair) for pair in ranked[:5]]
    return {"score": score, "hits": [rank == 1, rank <= 5], "shown": shown, "raw": {"rank": rank}}


def _copy(connection: Connection, run_id: str, known: int, total: int) -> None:
    """Fill the run up to ``total`` items with copies that have sources of their own."""
    own = ("id", "item_key", "ordinal", "item_group")
    copied = ", ".join(column.name for column in schema.items.columns if column.name not in own)
    for first in range(known, total, known):
        connection.execute(
            text(
                f"INSERT INTO items (id, item_key, ordinal, item_group, {copied}) "
                "SELECT run_id || '.' || (ordinal + :first), 'key-' || (ordinal + :first), ordinal + :first, "
                f"item_group || '-' || CAST(:first AS TEXT), {copied} FROM items "
                "WHERE run_id = :run AND ordinal < :most"
            ),
            {"first": first, "most": min(known, total - first), "run": run_id},
        )
