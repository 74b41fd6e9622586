"""A Ray job whose editor asks a server of images: killed at half-way, it pays for each image once."""

from __future__ import annotations

import hashlib
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from counterpose_core.contract.jobs import Job
from counterpose_core.contract.spending import Spending, Spent
from counterpose_core.types import FINAL_JOB_STATES
from fakes.cluster_jobs import JobStack, job_stack, worked
from fakes.images_server import Asked, Reply, images_server, obey
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
REQUEST: dict[str, Any] = {
    "max_edits_per_image": 1,
    "edit_types": ["background"],
    "preservation": "none",
    # LANCE's own, which the fakes' scores pass.
    "thresholds": {"direction": 0.2, "image_image": 0.7, "image_text": 0.2, "word_similarity": 0.9},
    "spending": {"images": 2 * QUESTIONS, "prices": {MODEL: {"usd_per_image": USD}}},
}
PATIENCE_SECONDS = 240.0 + SOURCES
LOOK_SECONDS, PAUSE_SECONDS = 0.1, 0.5
MOST_SECONDS = 15.0
"""Of 99 in 100 looks: far above what a page takes, for this machine may do anything else meanwhile."""


class HoldingServer:
    """Obeys, but answers nobody while it may not go on; ``held`` are those that waited."""

    def __init__(self) -> None:
        self.held, self.goes_on = list[Asked](), threading.Event()
        self.goes_on.set()

    def answer(self, asked: Asked, closing: threading.Event) -> Reply:
        """Answer when it may."""
        if not self.goes_on.is_set():
            self.held.append(asked)
        while not self.goes_on.wait(LOOK_SECONDS) and not closing.is_set():
            pass
        return obey(asked, closing)


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
                    began = time.monotonic()
                    status: int | None = None
                    with suppress(httpx.TransportError):
                        status = http.get(path).status_code
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


def kill_workers_in_calls(stack: JobStack, run_id: str, server: HoldingServer) -> Spent:
    """Kill the programs of all workers while the server is asked; return the most that their calls cost."""
    server.goes_on.clear()
    look_until(lambda: bool(server.held))
    time.sleep(PAUSE_SECONDS)
    pids = stack.workers()
    assert len(pids) == WORKERS
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    # What they have sent to the database is done by then, and they send no more.
    time.sleep(PAUSE_SECONDS)
    account = stack.ledger.spending.of(run_id)
    assert account is not None
    for pid in pids:
        kill(pid)
    server.goes_on.set()
    return account.unanswered


def restart_gateway(stack: JobStack) -> tuple[float, float]:
    """Kill the gateway, and start it again; return when it was killed and when it answered again."""
    killed = time.monotonic()
    stack.programs.kill("serve")
    stack.programs.start("serve")
    look_until(stack.programs.answers)
    return killed, time.monotonic()


def question(one: Asked) -> tuple[str, str]:
    """Its instruction, and the digest of the image that it is about."""
    assert one.image is not None
    return str(one.fields["prompt"]), hashlib.sha256(one.image.tobytes()).hexdigest()


def asked_beyond_need(asked: Sequence[Asked]) -> int:
    """How many questions repeat others; all that are needed must be there, and nothing else."""
    counts = Counter(map(question, asked))
    needed = {each: 1 + each[0].startswith("Return the image unchanged") for each in counts}
    assert sum(needed.values()) == QUESTIONS
    assert all(counts[each] >= n for each, n in needed.items())
    return len(asked) - QUESTIONS


def latencies(looks: Sequence[Look]) -> dict[str, dict[str, float]]:
    """Of each page, how many looks were answered, and the seconds that they took."""
    figures = dict[str, dict[str, float]]()
    for page in dict.fromkeys(look.page for look in looks):
        took = [look.seconds for look in looks if look.page == page and look.status is not None]
        p50, p99 = np.percentile(took, (50, 99))
        figures[page] = {"n": len(took), "p50": float(p50), "p99": float(p99), "most": max(took)}
    return figures


@dataclass(frozen=True)
class Killed:
    """What the kills left: the most that open calls cost, and when the gateway was away."""

    lost: Spent
    away: tuple[float, float]


def kill_in_its_middle(stack: JobStack, job: Job, server: HoldingServer) -> Killed:
    """Kill the workers half-way and the gateway later; wait until the job has completed at one attempt."""
    run_id = str(job.run)
    look_until_ended(stack, run_id, ITEMS // 2)
    lost = kill_workers_in_calls(stack, run_id, server)
    look_until_ended(stack, run_id, ITEMS * 3 // 4)
    away = restart_gateway(stack)
    jobs = stack.ledger.jobs
    look_until(lambda: jobs.get(job.id).state in FINAL_JOB_STATES, PATIENCE_SECONDS, pause=PAUSE_SECONDS)
    ended = jobs.get(job.id)
    assert (ended.state, len(ended.attempts)) == ("completed", 1), ended
    return Killed(lost, away)


@pytest.mark.timeout(7200)
@pytest.mark.fault("F36")
def test_a_job_that_is_killed_half_way_pays_for_each_image_once(tmp_path: Path) -> None:
    folder, holding = tmp_path / "state", HoldingServer()
    with postgres() as database, images_server(holding.answer) as server:
        own = images_programs(database.empty_database(), folder, server.url, SOURCES // len(CLASSES))
        with job_stack(own.url, folder, own=own) as stack:
            stack.upload(SOURCES // len(CLASSES))
            began = time.monotonic()
            job = stack.submit(WORKERS, **REQUEST)
            with looking(stack, {"status": f"/v1/runs/{job.run}", "page": f"/ui/runs/{job.run}"}) as looks:
                kills = kill_in_its_middle(stack, job, holding)
            seconds = time.monotonic() - began
            found = worked(stack.ledger, str(job.run), ITEMS)
            summary = stack.call("GET", f"/v1/runs/{job.run}/summary").json()
    told = Spending.model_validate(summary["spending"])
    paid, asked, again = told.services["editor"], len(server.asked), asked_beyond_need(server.asked)
    unreachable, figures = [look for look in looks if look.status is None], latencies(looks)
    of_the_job = {"sources": SOURCES, "items": ITEMS, "seconds": seconds, "items_again": found.again}
    of_the_server = {"asked": asked, "asked_again": again, "held": len(holding.held)}
    of_the_account = {"paid": paid.model_dump(), "usd": told.usd, "unanswered": kills.lost.model_dump()}
    of_the_pages = {"looks": figures, "unreachable": len(unreachable), "away": kills.away[1] - kills.away[0]}
    report("job of paid images", **of_the_job, **of_the_server, **of_the_account, **of_the_pages)

    assert (summary["counts"]["done"] + summary["counts"]["filtered"], told.stopped) == (ITEMS, None)
    # Nobody heard what was answered after the kill, and yet it is kept: who goes on does not ask.
    assert again == 0
    # A group makes one call at a time, for all questions of its source.
    assert len(holding.held) <= kills.lost.calls <= WORKERS * GROUPS * QUESTIONS // SOURCES
    assert (list(told.services), told.unanswered) == (["editor"], kills.lost)
    assert asked <= paid.calls == paid.images <= asked + kills.lost.images
    assert told.usd == pytest.approx(paid.images * USD)
    assert {look.status for look in looks} <= {200, None}
    assert all(kills.away[0] <= look.at + look.seconds <= kills.away[1] for look in unreachable)
    assert all(page["p99"] < MOST_SECONDS for page in figures.values()), figures
