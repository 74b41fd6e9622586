"""Runs whose workers are killed in every stage, to be held against the same run that nobody kills."""

from __future__ import annotations

import asyncio
import json
import random
import re
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from pydantic.main import IncEx

from counterpose_core.contract.runs import RunItem
from counterpose_gateway.ledger import Ledger
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ledger_audit import violated
from fakes.ledger_worker import acknowledged
from fakes.ledgers import migrated_file
from fakes.mortal_worker import Moment, deep_snow, keep_shown, work_until
from fakes.processes import PATIENCE_SECONDS, Start, look_until

_RUN_ID = re.compile(r"\b[0-9a-f]{32}\b")


@dataclass(frozen=True)
class Killed:
    """A kind of run whose workers are killed: where its runs are found, and how one is created."""

    root: str
    item: type[RunItem[Any]]
    create: Callable[[FakeGateway], Awaitable[str]]
    """Creates the run, with all that it needs, and returns its id."""
    kills: int = 1
    """In each stage."""


@dataclass(frozen=True)
class Recorded:
    """What a run found and recorded, as if all runs had one name and took no time."""

    findings: dict[str, str]
    items: list[str]
    lines: Counter[int]
    """Of its log, by stage."""
    phases: list[str]


def undisturbed(folder: Path, kind: Killed) -> Recorded:
    """The run of one worker that nobody kills."""
    url, log = migrated_file(folder), folder / "log"
    run_id = asyncio.run(_created(url, folder, kind))
    work_until(url, folder, run_id, log, 0, None)
    return asyncio.run(recorded(url, folder, kind, run_id, log))


def killed(url: str, folder: Path, kind: Killed, start: Start, lines: Counter[int]) -> Recorded:
    """The run of workers that are killed one after another; the first one is only overtaken.

    ``lines``: of the log of the undisturbed run, by stage.
    """
    log, living = folder / "log", list[ForkServerProcess]()
    run_id = asyncio.run(_created(url, folder, kind))
    for number, moment in enumerate(_moments(lines, kind.kills), start=1):
        worker = start(work_until, url, folder, run_id, log, number, moment)
        if moment.pauses:
            look_until(lambda: any(line.endswith("paused") for line in acknowledged(log)))
            living.append(worker)
            continue
        worker.join(PATIENCE_SECONDS)
        assert worker.exitcode == -signal.SIGKILL, moment
    for each in living:
        each.join(PATIENCE_SECONDS)
        # It may have been refused, or have given its group up before; both are seen below to record nothing.
        assert each.exitcode is not None, "the overtaken worker still waits"
    start(work_until, url, folder, run_id, log, 100, None).join(PATIENCE_SECONDS)
    outcomes = [line for line in acknowledged(log) if " recorded " in line]
    assert len(outcomes) == len(set(outcomes)), "an item was recorded twice"
    return asyncio.run(recorded(url, folder, kind, run_id, log))


def _moments(lines: Counter[int], kills: int) -> Iterator[Moment]:
    """Kills in each stage, and in the planning after the last."""
    draw, last = random.Random(15), max(lines)
    yield Moment(stage=1, lines=1, pauses=True)
    for stage in range(1, last + 1):
        for kill in range(kills):
            late = draw.choice([0.0, draw.uniform(0.0, 0.02)])
            # Each in its own part of the stage: the run must not end before the last one.
            first, end = (lines[stage] * each // kills for each in (kill, kill + 1))
            yield Moment(stage, draw.randint(1 + first, max(end, 1)), late if stage < last - 1 else 0.0)


async def _created(url: str, folder: Path, kind: Killed) -> str:
    async with fake_gateway(folder, ports=deep_snow, ledger=Ledger(url)) as gateway:
        run_id = await kind.create(gateway)
        keep_shown(folder, gateway.world)
        return run_id


async def recorded(url: str, folder: Path, kind: Killed, run_id: str, log: Path | None = None) -> Recorded:
    """What a run recorded, in the ledger and in the log of its workers."""
    async with fake_gateway(folder, ports=deep_snow, ledger=Ledger(url)) as gateway:
        assert gateway.ledger.runs.get(run_id).state == "completed"
        assert violated(gateway.ledger, run_id) == []
        of_the_clock: IncEx = {"began_at", "ended_at", "service_seconds", "cost"}
        left_out: IncEx = {"id": True, "attempts": True, "result": of_the_clock}
        items = list(gateway.ledger.items.of(run_id, kind.item))
        # Classifiers answer in any order.
        told = [json.dumps(item.model_dump(mode="json", exclude=left_out), sort_keys=True) for item in items]
        phases = [item.model_dump(include={"instruction"})["instruction"]["phase"] for item in items]
        answer = await gateway.http.get(f"/v1/runs/{run_id}/summary")
        assert answer.status_code == 200, answer.text
        found = {name: _nameless(repr(each)) for name, each in _timeless(answer.json()).items()}
        return Recorded(found, [*map(_nameless, told)], _lines_by_stage(log), list(dict.fromkeys(phases)))


def _nameless(text: str) -> str:
    return _RUN_ID.sub("run", text)


def _timeless(told: Any) -> Any:
    """Without what was taken, which differs between equal runs."""
    if isinstance(told, list):
        return [_timeless(each) for each in told]
    if not isinstance(told, dict):
        return told
    return {name: _timeless(each) for name, each in told.items() if name not in ("seconds", "cost")}


def _lines_by_stage(log: Path | None) -> Counter[int]:
    if log is None:
        return Counter()
    return Counter(int(line.split()[0]) for line in acknowledged(log))
