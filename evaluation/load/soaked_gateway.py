"""A gateway, a worker and fake services in processes of their own, and a client that keeps them busy."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx

from counterpose_gateway.ledger import Ledger
from counterpose_processes.ports import free_port
from evaluation.load.bulk import load_runs
from evaluation.load.gateway_programs import (
    PATIENCE_SECONDS,
    Program,
    gateway_environment,
    program,
    state_folder,
    wait_until_answered,
)
from fakes.store import image
from fakes.world import CAPTION, CLASSES, Shown

PER_CLASS = 4
REQUEST: dict[str, Any] = {
    "dataset": "soak", "classifiers": ["steady"], "outside_suite": "continue",
    # LANCE's own: by those of the miniature suite, which its own models set, no edit of the fakes is kept.
    "thresholds": {"direction": 0.2, "image_image": 0.7, "image_text": 0.2, "word_similarity": 0.9},
}  # fmt: skip
OPEN = ("validating", "queued", "in_progress", "finalizing")
IDLE_SECONDS = 300.0
LOOK_SECONDS = 0.5


class SoakedGateway:
    """The processes, and what they answered wrongly; every submitted run is watched until its end."""

    def __init__(self, http: httpx.Client, programs: Sequence[Program], ledger_url: str) -> None:
        self.programs = programs
        self._ledger_url = ledger_url
        self.errors: list[str] = []
        self._http = http
        self._seed = 0
        self._open: dict[str, int] = {}
        self.ended_items = 0
        self.ended_runs = 0

    def upload(self) -> None:
        """Make the dataset whose images the fake services know."""
        sources = [_source(label, number) for label in CLASSES for number in range(PER_CLASS)]
        self._ask("POST", "/v1/datasets", {"name": "soak"})
        self._ask("POST", "/v1/datasets/soak/sources", {"sources": sources})

    def fill_caches(self, runs: int) -> None:
        """Poll so many runs that ended long ago, twice each: a text is kept with what the second look saw."""
        with closing(Ledger(self._ledger_url)) as ledger:
            filled = load_runs(ledger, self._ledger_url, runs, items=0)
        for run_id in filled:
            for _ in range(2):
                self._ask("GET", f"/v1/runs/{run_id}")

    def submit(self) -> None:
        """Submit a run of a new seed."""
        self._seed += 1
        body = REQUEST | {"seed": self._seed}
        if run := self._ask("POST", "/v1/stress-tests", body):
            self._open[run["id"]] = 0

    def keep_open(self, runs: int, *, until: Callable[[], bool]) -> None:
        """Keep so many runs open until a condition holds.

        Raises:
            TimeoutError: it does not within minutes.
        """
        end = time.monotonic() + IDLE_SECONDS
        while not until():
            if time.monotonic() > end:
                raise TimeoutError("the worker does not get on; look into its log")
            for _ in range(runs - len(self._open)):
                self.submit()
            time.sleep(LOOK_SECONDS)
            self.look()

    def items_a_run(self) -> float:
        """Return the mean number of items of the runs that ended."""
        return self.ended_items / max(1, self.ended_runs)

    def look(self) -> None:
        """Poll every open run, and read the results of those that ended."""
        for run_id in list(self._open):
            run = self._ask("GET", f"/v1/runs/{run_id}")
            counts = run.get("request_counts", {})
            self._open[run_id] = sum(counts.get(name, 0) for name in ("done", "filtered", "failed"))
            if run and run["state"] not in OPEN:
                self._end(run)

    def finished_items(self) -> int:
        """Return how many items were finished when they were looked at last."""
        return self.ended_items + sum(self._open.values())

    def wait_until_idle(self) -> None:
        """Wait until every run has ended.

        Raises:
            TimeoutError: one goes on for minutes.
        """
        self.keep_open(0, until=lambda: not self._open)

    def _end(self, run: dict[str, Any]) -> None:
        self.ended_runs += 1
        self.ended_items += self._open.pop(run["id"])
        if run["state"] != "completed":
            self.errors.append(f"run {run['id']} is {run['state']}")
        self._ask("GET", f"/v1/runs/{run['id']}/items?limit=100")

    def _ask(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        try:
            answer = self._http.request(method, path, json=body)
        except httpx.TransportError as error:
            self.errors.append(f"{method} {path}: {error!r}")
            return {}
        if not answer.is_success:
            self.errors.append(f"{method} {path}: {answer.status_code} {answer.text[:200]}")
            return {}
        found: dict[str, Any] = answer.json()
        return found


def _source(label: str, number: int) -> dict[str, str]:
    content = base64.b64encode(image(Shown(label, CAPTION.format(label=label)), number)).decode()
    return {"filename": f"{label}-{number}.png", "label": label, "content_base64": content}


@contextmanager
def soaked_gateway(folder: Path) -> Iterator[SoakedGateway]:
    """Start services, gateway and worker on a new state folder, and stop them at the end."""
    state, port, services_port = state_folder(folder / "state"), free_port(), free_port()
    settings = gateway_environment(state, port, services_port)
    services = ("fakes.services_program", str(state / "store"), str(services_port), str(PER_CLASS))
    with ExitStack() as running:

        def start(*command: str) -> Program:
            log = folder / f"{command[-1].replace('/', '-')}.log"
            return running.enter_context(program(*command, environment=settings, log=log))

        start(*services)
        serving = start("counterpose_gateway.main", "serve")
        wait_until_answered(port, serving)
        working = start("counterpose_gateway.main", "work")
        address = f"http://127.0.0.1:{port}"
        http = running.enter_context(
            httpx.Client(base_url=address, timeout=PATIENCE_SECONDS, trust_env=False)
        )
        gateway = SoakedGateway(http, (serving, working), f"sqlite:///{state / 'ledger.db'}")
        gateway.upload()
        yield gateway
