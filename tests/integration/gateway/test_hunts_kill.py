"""Bug hunts with workers killed in every stage: the same findings, and nothing twice."""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest
from pydantic.main import IncEx

from fakes.gateway import FakeGateway, fake_gateway
from fakes.hunting_worker import Moment, deep_snow, hunt
from fakes.ledger_worker import acknowledged
from fakes.ledgers import migrated_file
from fakes.processes import PATIENCE_SECONDS, Start, child_processes, look_until
from faultline_core.contract.bug_hunts import HuntItem
from faultline_gateway.ledger import Ledger

ROOT = "/v1/bug-hunts"
BODY: dict[str, Any] = {
    "classifiers": ["leaning"], "labels": ["plate"], "budget": {"images": 160}, "held_out": 16, "winners": 1,
    "hypotheses": 3, "captions": 8, "refine": 8, "words": "both", "clusters": "features", "seed": 5,
}  # fmt: skip
PHASES = ["baseline", "clusters", "captions", "combination", "hypothesis", "refinement", "held-out"]


@dataclass(frozen=True)
class Hunted:
    """What a hunt found and recorded, as if all runs had one name and took no time."""

    findings: dict[str, str]
    items: list[str]
    lines: Counter[int]
    """Of its log, by stage."""
    phases: list[str]


@pytest.fixture
def start() -> Iterator[Start]:
    with child_processes() as start_one:
        yield start_one


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Hunted:
    """The hunt of one worker that nobody kills."""
    folder = tmp_path_factory.mktemp("undisturbed")
    url, log = migrated_file(folder), folder / "log"
    run_id = asyncio.run(created(url, folder))
    hunt(url, folder, run_id, log, 0, None)
    return asyncio.run(hunted(url, folder, run_id, log))


async def created(url: str, folder: Path) -> str:
    async with fake_gateway(folder, ports=deep_snow, ledger=Ledger(url)) as gateway:
        answer = await gateway.http.post(ROOT, json=BODY)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])


async def hunted(url: str, folder: Path, run_id: str, log: Path) -> Hunted:
    async with fake_gateway(folder, ports=deep_snow, ledger=Ledger(url)) as gateway:
        assert gateway.ledger.run(run_id).state == "completed"
        assert gateway.ledger.audit(run_id) == []
        of_the_clock: IncEx = {"began_at", "ended_at", "service_seconds", "cost"}
        left_out: IncEx = {"id": True, "attempts": True, "result": of_the_clock}
        items = list(gateway.ledger.items_of(run_id, HuntItem))
        told = [item.model_dump_json(exclude=left_out).replace(run_id, "run") for item in items]
        phases = [item.instruction.phase for item in items if item.instruction is not None]
        return Hunted(await findings(gateway, run_id), told, lines_by_stage(log), list(dict.fromkeys(phases)))


async def findings(gateway: FakeGateway, run_id: str) -> dict[str, str]:
    answer = await gateway.http.get(f"{ROOT}/{run_id}/summary")
    assert answer.status_code == 200, answer.text
    of_run = timeless(answer.json())
    return {name: repr(each).replace(run_id, "run") for name, each in of_run.items()}


def timeless(told: Any) -> Any:
    """Without what was taken, which differs between equal hunts."""
    if isinstance(told, list):
        return [timeless(each) for each in told]
    if not isinstance(told, dict):
        return told
    return {name: timeless(each) for name, each in told.items() if name not in ("seconds", "cost")}


def lines_by_stage(log: Path) -> Counter[int]:
    return Counter(int(line.split()[0]) for line in acknowledged(log))


def moments(lines: Counter[int]) -> Iterator[Moment]:
    """A kill in each stage, and in the planning after the last; the first worker is only overtaken."""
    draw, last = random.Random(15), max(lines)
    yield Moment(stage=1, lines=1, pauses=True)
    for stage in range(1, last + 1):
        late = draw.choice([0.0, draw.uniform(0.0, 0.02)])
        # Not while the run may end meanwhile.
        yield Moment(stage, draw.randint(1, lines[stage]), late if stage < last - 1 else 0.0)


def test_workers_killed_in_every_stage_find_what_an_undisturbed_one_finds(
    url: str, tmp_path: Path, start: Start, undisturbed: Hunted
) -> None:
    assert undisturbed.phases == PHASES
    log, living = tmp_path / "log", list[ForkServerProcess]()
    run_id = asyncio.run(created(url, tmp_path))
    for number, moment in enumerate(moments(undisturbed.lines), start=1):
        worker = start(hunt, url, tmp_path, run_id, log, number, moment)
        if moment.pauses:
            look_until(lambda: any(line.endswith("paused") for line in acknowledged(log)))
            living.append(worker)
            continue
        worker.join(PATIENCE_SECONDS)
        assert worker.exitcode == -signal.SIGKILL, moment
    for each in living:
        each.join(PATIENCE_SECONDS)
    assert "1 refused" in acknowledged(log), "the overtaken worker recorded an outcome"
    start(hunt, url, tmp_path, run_id, log, 100, None).join(PATIENCE_SECONDS)
    found = asyncio.run(hunted(url, tmp_path, run_id, log))
    outcomes = [line for line in acknowledged(log) if " recorded " in line]
    assert len(outcomes) == len(set(outcomes)), "an item was recorded twice"
    assert found.items == undisturbed.items
    assert found.findings == undisturbed.findings
