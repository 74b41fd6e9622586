"""Recorded shift benchmarks of any size: the form that a worker writes, with answers that are drawn."""

from __future__ import annotations

import copy
import random
import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, insert

from counterpose_gateway.ledger import Ledger
from counterpose_gateway.ledger.tables import schema
from counterpose_gateway.methods.shift_benchmark.cells import Cell
from evaluation.load.recorded import Row, prediction, rows_of
from fakes.benchmarks import benchmark_body, benchmark_services, uploaded
from fakes.gateway import fake_gateway

IMAGES, REAL = 20, 10
MODELS = tuple(f"model-{number}" for number in range(6))
_AT_ONCE = 500

Form = dict[tuple[int, str], Row]
"""A written row by its condition and image source."""


async def load_recorded_benchmark(ledger: Ledger, url: str, items: int) -> str:
    """Make an ended benchmark of so many done items and return its id.

    ``url`` is the address of the ledger's database. The last class may lack images.
    """
    run, form, event = await _written()
    per_class = REAL + IMAGES * (len(form) - 1)
    classes = [f"class {number}" for number in range(-(-items // per_class))]
    counts = {"total": items, "done": items}
    run = run | counts | {"config": _config(run["config"], classes)}
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    rows = islice(_rows(run["id"], form, classes), items)
    try:
        with engine.begin() as connection:
            connection.execute(insert(schema.runs), [run])
            while several := list(islice(rows, _AT_ONCE)):
                connection.execute(insert(schema.items), several)
            connection.execute(insert(schema.events), [event | {"counts": event["counts"] | counts}])
    finally:
        engine.dispose()
    return str(run["id"])


async def _written() -> tuple[Row, Form, Row]:
    """What a worker wrote of a small benchmark: the run, an item of each kind, and the last event."""
    with tempfile.TemporaryDirectory() as folder:
        async with fake_gateway(Path(folder), ports=benchmark_services) as gateway:
            body = benchmark_body(await uploaded(gateway))
            answer = await gateway.http.post("/v1/shift-benchmarks", json=body)
            await gateway.worker().work_off()
            engine = create_engine(f"sqlite:///{folder}/ledger.db")
            try:
                run, rows, event = rows_of(engine, answer.json()["id"])
            finally:
                engine.dispose()
    form: Form = {}
    for row in rows:
        cell = Cell.of(row["item_group"])
        form.setdefault((cell.condition, cell.image_source), row)
    return run, form, event


def _config(written: Row, classes: Sequence[str]) -> Row:
    request = written["request"] | {"n": IMAGES, "real": REAL, "classifiers": list(MODELS)}
    tokens = dict.fromkeys(classes, next(iter(written["tokens"].values())))
    named = {"classes": list(classes), "labels": list(classes), "tokens": tokens}
    return written | named | {"request": request}


def _rows(run_id: str, form: Form, classes: Sequence[str]) -> Iterator[Row]:
    generator = random.Random(0)
    ordinal = 0
    for index, label in enumerate(classes):
        for (condition, image_source), row in form.items():
            group = Cell(condition, index, Cell.of(row["item_group"]).image_source).item_group
            for slot in range(REAL if image_source == "real" else IMAGES):
                own = {"ordinal": ordinal, "id": f"{run_id}.{ordinal}", "item_key": f"key-{ordinal}"}
                placed = {"item_group": group, "label": label, "slot": slot}
                yield {**row, **own, **placed, "result": _result(row, label, classes, generator)}
                ordinal += 1


def _result(row: Row, label: str, classes: Sequence[str], generator: random.Random) -> Any:
    result = copy.deepcopy(row["result"])
    others = [name for name in generator.sample(classes, k=min(6, len(classes))) if name != label]
    few = [label, *others[:5]]
    result["predictions"] = {model: prediction(label, few, generator) for model in MODELS}
    result["image"] = f"{generator.getrandbits(256):064x}"
    for name in ("object_similarity", "shift_similarity"):
        if result[name] is not None:
            result[name] = generator.uniform(0.2, 0.4)
    return result
