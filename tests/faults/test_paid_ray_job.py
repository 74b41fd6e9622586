"""A Ray job whose editor asks a server of images: killed at half-way, it pays for each image once."""

from __future__ import annotations

import hashlib
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import pytest

from counterpose_core.contract.spending import Spending, Spent
from counterpose_core.types import FINAL_JOB_STATES
from fakes.cluster_jobs import JobStack, job_stack, worked
from fakes.images_server import Asked, images_server
from fakes.images_services import MODEL, images_programs
from fakes.photographs_cluster import report
from fakes.postgres import postgres
from fakes.process_trees import kill
from fakes.processes import look_until
from fakes.world import CLASSES

SOURCES = int(os.environ.get("PAID_SOURCES", "2000"))
"""Source images, each with one edit, a placebo and a control."""
ITEMS, QUESTIONS = 3 * SOURCES, 4 * SOURCES
"""The control's image is asked for twice, which tells the server's noise."""
WORKERS, GROUPS = 2, 4
USD = 0.02
"""For an image."""
REQUEST = {
    "max_edits_per_image": 1,
    "edit_types": ["background"],
    "preservation": "none",
    "spending": {"images": 2 * QUESTIONS, "prices": {MODEL: {"usd_per_image": USD}}},
}
PATIENCE_SECONDS = 240.0 + SOURCES
LOOK_SECONDS, PAUSE_SECONDS = 0.1, 0.5
MOST_SECONDS = 15.0
"""Of 99 in 100 looks: far above what a page takes, for this machine may do anything else meanwhile."""


@dataclass(frozen=True)
class Look:
    """One look at a page: when, for how many seconds, and the status; None without an answer."""

    page: str
    at: float
    seconds: float
    status: int | None


@contextmanager
def looking(stack: JobStack, pages: dict[str, str]) -> Iterator[list[Look]]:
    """Look at each page about ten times a second until the block ends."""
    looks, stop = list[Look](), threading.Event()

    def look() -> None:
        with httpx.Client(base_url=stack.programs.address, timeout=60.0, trust_env=False) as http:
            while not stop.wait(LOOK_SECONDS):
                for page, path in pages.items():
                    began, status = time.monotonic(), None
                    try:
                        status = http.get(path).status_code
                    except httpx.TransportError:
                        pass
                    looks.append(Look(page, began, time.monotonic() - began, status))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield looks
    finally:
        stop.set()
        thread.join()


def look_until_ended(stack: JobStack, run_id: str, items: int) -> None:
    """Wait until so many items have ended, but not all."""
    look_until(lambda: stack.ended_items(run_id) >= items, PATIENCE_SECONDS, pause=PAUSE_SECONDS)
    assert stack.ended_items(run_id) < ITEMS, "it ended before anything was killed"


def kill_workers_in_a_call(stack: JobStack, run_id: str) -> Spent:
    """Kill the programs of all workers while a call of theirs is open; return the most that those cost."""
    while True:
        pids = stack.workers()
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        # What they have sent to the database is done by then, and they send no more.
        time.sleep(PAUSE_SECONDS)
        account = stack.ledger.spending.of(run_id)
        if len(pids) == WORKERS and account is not None and account.unanswered.calls:
            for pid in pids:
                kill(pid)
            return account.unanswered
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        time.sleep(PAUSE_SECONDS)


def restart_gateway(stack: JobStack) -> tuple[float, float]:
    """Kill the gateway, and start it again; return when it was killed and when it answered again."""
    killed = time.monotonic()
    stack.programs.kill("serve")
    stack.programs.start("serve")
    look_until(stack.programs.answers)
    return killed, time.monotonic()


def asked_beyond_need(asked: Sequence[Asked]) -> int:
    """How many questions repeat others; all that are needed must be there, and nothing else."""
    counts = Counter(
        (str(one.fields["prompt"]), hashlib.sha256(np.ascontiguousarray(one.image)).hexdigest())
        for one in asked
    )
    needed = {question: 1 + question[0].startswith("Return the image unchanged") for question in counts}
    assert sum(needed.values()) == QUESTIONS
    assert all(counts[question] >= n for question, n in needed.items())
    return len(asked) - QUESTIONS


def latencies(looks: Sequence[Look]) -> dict[str, dict[str, float]]:
    """Of each page, how many looks were answered, and the seconds that they took."""
    figures = dict[str, dict[str, float]]()
    for page in dict.fromkeys(look.page for look in looks):
        took = [look.seconds for look in looks if look.page == page and look.status is not None]
        p50, p99 = np.percentile(took, (50, 99))
        figures[page] = {"n": len(took), "p50": float(p50), "p99": float(p99), "most": max(took)}
    return figures


@pytest.mark.timeout(7200)
def test_a_job_that_is_killed_half_way_pays_for_each_image_once(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with postgres() as database, images_server() as server:
        own = images_programs(database.empty_database(), folder, server.url, SOURCES // len(CLASSES))
        with job_stack(own.url, folder, own=own) as stack:
            stack.upload(SOURCES // len(CLASSES))
            began = time.monotonic()
            job = stack.submit(WORKERS, **REQUEST)
            run_id = str(job.run)
            pages = {"status": f"/v1/runs/{run_id}", "page": f"/ui/runs/{run_id}"}
            with looking(stack, pages) as looks:
                look_until_ended(stack, run_id, ITEMS // 2)
                lost = kill_workers_in_a_call(stack, run_id)
                look_until_ended(stack, run_id, ITEMS * 3 // 4)
                killed, answered = restart_gateway(stack)
                ended = FINAL_JOB_STATES
                look_until(
                    lambda: stack.ledger.jobs.get(job.id).state in ended,
                    PATIENCE_SECONDS,
                    pause=PAUSE_SECONDS,
                )
            seconds = time.monotonic() - began
            result = stack.ledger.jobs.get(job.id)
            assert (result.state, len(result.attempts)) == ("completed", 1), result
            found = worked(stack.ledger, run_id, ITEMS)
            summary = stack.call("GET", f"/v1/runs/{run_id}/summary").json()
    told = Spending.model_validate(summary["spending"])
    paid, again = told.services["editor"], asked_beyond_need(server.asked)
    unreachable = [look for look in looks if look.status is None]
    figures = latencies(looks)
    report(
        "job of paid images", sources=SOURCES, items=ITEMS, seconds=seconds, asked=len(server.asked),
        asked_again=again, paid=paid.model_dump(), usd=told.usd, unanswered=lost.model_dump(),
        items_again=found.again, gateway_away=answered - killed, unreachable=len(unreachable), looks=figures,
    )  # fmt: skip
    assert (summary["counts"]["done"] + summary["counts"]["filtered"], told.stopped) == (ITEMS, None)
    # Each question once, but for those that a killed worker waited for: a group asks one call at a time.
    assert 0 <= again <= lost.calls <= WORKERS * GROUPS * QUESTIONS // SOURCES
    assert list(told.services) == ["editor"]
    assert told.unanswered == lost
    assert len(server.asked) <= paid.calls == paid.images <= len(server.asked) + lost.images
    assert told.usd == pytest.approx(paid.images * USD)
    assert {look.status for look in looks} <= {200, None}
    assert all(killed <= look.at + look.seconds <= answered for look in unreachable)
    assert all(page["p99"] < MOST_SECONDS for page in figures.values()), figures
