"""Workers that are killed while a server answers them: the account never falls below what was asked for."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.images_gateway import images_gateway
from fakes.images_server import Asked, Reply, obey
from fakes.mortal_worker import keep_shown
from fakes.page_runs import BODY
from fakes.paying_worker import pay_until_ended
from fakes.processes import Start, child_processes

KILLED_AT = (3, 11, 24)
"""The request at which a process is killed; the next one goes on."""


@pytest.fixture
def start() -> Iterator[Start]:
    with child_processes() as starting:
        yield starting


@pytest.mark.fault("F36")
async def test_a_worker_that_is_killed_between_a_call_and_its_outcome_loses_no_money(
    tmp_path: Path, start: Start
) -> None:
    at_work = list[int]()
    asked = list[str]()
    counting = threading.Lock()

    def killing(one: Asked, closing: threading.Event) -> Reply:
        with counting:
            asked.append(one.path)
            if len(asked) in KILLED_AT:
                # Before its answer: the image is made and paid for, and nobody records it.
                os.kill(at_work[-1], signal.SIGKILL)
        return obey(one, closing)

    async with images_gateway(tmp_path, killing) as (gateway, server):
        await gateway.upload("demo", 2)
        keep_shown(tmp_path, gateway.world)
        body = BODY | {"confirm": False, "preservation": "none", "spending": {"images": 100}}
        run = (await gateway.http.post("/v1/stress-tests", json=body)).json()["id"]
        url = f"sqlite:///{tmp_path / 'ledger.db'}"
        for number in range(len(KILLED_AT) + 1):
            process = start(pay_until_ended, url, tmp_path, run, server.url, number)
            assert process.pid is not None
            at_work.append(process.pid)
            process.join(60)
            expected = -signal.SIGKILL if number < len(KILLED_AT) else 0
            assert process.exitcode == expected
        summary = (await gateway.http.get(f"/v1/runs/{run}/summary")).json()
    assert summary["counts"]["done"] + summary["counts"]["filtered"] == summary["counts"]["planned"]
    told = summary["spending"]
    paid, unanswered = told["services"]["editor"]["images"], told["unanswered"]["images"]
    # Each killed process leaves one call, of three edits and a placebo at most.
    assert len(KILLED_AT) <= unanswered <= 4 * len(KILLED_AT)
    assert len(asked) <= paid <= len(asked) + unanswered
    assert told["stopped"] is None
