"""Recorded bug hunts of any size: a small one that a worker took to its end, its images again and again."""

from __future__ import annotations

import copy
import hashlib
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, insert

from counterpose_core.types import FINAL_ITEM_STATES
from counterpose_gateway.ledger.tables import schema
from evaluation.load.recorded import Row, rows_of
from fakes.gateway import fake_gateway
from fakes.hunted_world import hunted_services

BODY: dict[str, Any] = {
    "classifiers": ["steady", "leaning"], "labels": ["plate", "sled"], "budget": {"images": 1_000},
    "held_out": 64, "hypotheses": 6, "captions": 24, "seed": 5,
}  # fmt: skip
"""One of the two classifiers fails on plates in snow."""

_AT_ONCE = 500


@dataclass(frozen=True)
class Written:
    """What a worker wrote of a small hunt: the run, its items in order, and its last event."""

    run: Row
    items: Sequence[Row]
    event: Row

    @property
    def samples(self) -> int:
        """Its images."""
        return sum(row["kind"] == "sample" for row in self.items)


async def written_hunt() -> Written:
    """Have a worker take a small hunt to its end."""
    with tempfile.TemporaryDirectory() as folder:
        async with fake_gateway(Path(folder), ports=hunted_services) as gateway:
            answer = await gateway.http.post("/v1/bug-hunts", json=BODY)
            answer.raise_for_status()
            await gateway.worker().work_off()
            engine = create_engine(f"sqlite:///{folder}/ledger.db")
            try:
                return Written(*rows_of(engine, answer.json()["id"]))
            finally:
                engine.dispose()


def load_recorded_hunt(url: str, written: Written, samples: int) -> str:
    """Make an ended hunt of so many images, at least as many as were written, and return its id.

    ``url`` is the address of the ledger's database. Every image that a worker wrote is there as often, give
    or take one, at places and with bytes of its own; captions and all other items are there once.
    """
    ends = Counter[str]()
    rows = _rows(written, samples, ends)
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    try:
        with engine.begin() as connection:
            config = _config(written.run["config"], samples / written.samples)
            connection.execute(insert(schema.runs), [written.run | {"config": config}])
            while several := list(islice(rows, _AT_ONCE)):
                connection.execute(insert(schema.items), several)
            counts: dict[str, int] = {state: ends[state] for state in FINAL_ITEM_STATES}
            counts["total"] = ends.total()
            connection.execute(schema.runs.update().where(schema.runs.c.id == written.run["id"]), counts)
            event = written.event | {"counts": written.event["counts"] | counts}
            connection.execute(insert(schema.events), [event])
    finally:
        engine.dispose()
    return str(written.run["id"])


def _rows(written: Written, samples: int, ends: Counter[str]) -> Iterator[Row]:
    """Yield the rows in their order, and count their states."""
    run_id, often = written.run["id"], samples // written.samples
    more, ordinal, ids = samples % written.samples, 0, dict[str, str]()
    made = Counter(_prompt(row) for row in written.items if row["kind"] == "sample")
    for row in written.items:
        times = 1
        if row["kind"] == "sample":
            times, more = often + (more > 0), more - 1
        for number in range(times):
            name = f"{run_id}.{ordinal}"
            ids.setdefault(row["id"], name)
            ends[row["state"]] += 1
            yield {
                **row,
                "id": name,
                "ordinal": ordinal,
                **_again(row, number, made[_prompt(row)]),
            } | _of_sample(row, ids)
            ordinal += 1


def _again(row: Row, number: int, of_prompt: int) -> Row:
    """What differs in a copy of an image: its key, group, place and seed, and the image itself."""
    if number == 0:
        return {}
    result = copy.deepcopy(row["result"])
    if result is not None:
        result["image"] = _hashed(result["image"], number)
        result["seed"] += number
    return {
        "item_key": _hashed(row["item_key"], number),
        "item_group": _hashed(row["item_group"], number),
        "slot": row["slot"] + number * of_prompt,
        "result": result,
    }


def _of_sample(row: Row, ids: dict[str, str]) -> Row:
    """The instruction of a caption, which names the item of its image."""
    told = row["instruction"]
    return {"instruction": told | {"sample": ids[told["sample"]]}} if "sample" in told else {}


def _prompt(row: Row) -> tuple[Any, ...]:
    told = row["instruction"]
    return told["phase"], row["label"], told.get("hypothesis")


def _hashed(name: str, number: int) -> str:
    return hashlib.sha256(f"{name}|{number}".encode()).hexdigest()


def _config(written: Row, times: float) -> Row:
    """The configuration with a budget of as many images."""
    request = written["request"]
    shares = {name: round(times * images) for name, images in written["shares"].items()}
    budget = request["budget"] | {"images": round(times * request["budget"]["images"])}
    held_out = round(times * request["held_out"])
    return written | {"shares": shares, "request": request | {"budget": budget, "held_out": held_out}}
