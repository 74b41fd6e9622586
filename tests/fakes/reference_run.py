"""The reference run, which every fault is held against: 40 images by 5 edit types, and two controls of each.

It goes through the gateway's programs; the services are whatever answers at the programs' address.
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from counterpose import Client
from counterpose_core.blobs import BlobStore
from counterpose_core.contract.runs import Item
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.ledger import Ledger
from fakes.killed_programs import VICTIMS, Programs, started_programs
from fakes.ledger_audit import violated
from fakes.ledgers import migrated_file
from fakes.processes import look_until
from fakes.shared_world import KeptShown, SharedStore
from fakes.store import image
from fakes.world import CAPTION, CLASSES, FakeWorld, Shown

ROOT = "/v1/stress-tests"
PER_CLASS = 10
EDITS, CONTROLS = 5, 2
ITEMS = PER_CLASS * len(CLASSES) * (EDITS + CONTROLS)


@dataclass
class Told:
    """What a run came to: its items by what they are, and what differs between equal runs."""

    state: str
    items: dict[str, dict[str, Any]]
    tries: dict[str, int]
    """How often each item was tried."""
    seconds: float
    revisions: dict[str, set[str]]
    """The weights that answered, by model."""

    def without_models(self) -> dict[str, dict[str, Any]]:
        """The items as if all weights were one."""
        return {
            key: item | {"result": item["result"] and {**item["result"], "models": None}}
            for key, item in self.items.items()
        }

    @property
    def attempts(self) -> int:
        """Attempts beyond the first of each item."""
        return sum(max(tries - 1, 0) for tries in self.tries.values())

    @property
    def states(self) -> Counter[str]:
        """How many items ended how."""
        return Counter(item["state"] for item in self.items.values())


@dataclass(kw_only=True)
class ReferenceRuns:
    """Starts reference runs on a gateway and a worker, follows them, and tells what they came to."""

    folder: Path
    programs: Programs
    http: httpx.Client
    ledger: Ledger
    polls: list[int] = field(default_factory=list)
    """The status codes of all polls."""

    def wait_until_ready(self) -> None:
        """Wait until the gateway and, by its word, all services are ready."""
        look_until(self.programs.answers)

    def start_run(self, **changes: object) -> str:
        """Start the reference run, with ``changes`` to its request; return its id."""
        body = {
            "dataset": "demo",
            "classifiers": ["steady", "leaning"],
            "lance_r_edits_per_image": 0,
            # LANCE's own: those of the miniature suite are calibrated for its models.
            "thresholds": {"direction": 0.2, "image_image": 0.7, "image_text": 0.2, "word_similarity": 0.9},
            "confirm": False,
            "outside_suite": "continue",
            "seed": 3,
        } | changes
        answer = self.http.post(ROOT, json=body)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def ended_items(self, run_id: str) -> int:
        """How many items have ended; each question is a poll that must be answered."""
        return self._counts(run_id)[1]

    def is_over(self, run_id: str) -> bool:
        """Whether the run is in a final state."""
        return self._counts(run_id)[0] in FINAL_RUN_STATES

    def wait_for_items(self, run_id: str, number: int) -> None:
        """Wait until so many items have ended; fail if the run ends first."""
        look_until(lambda: self.ended_items(run_id) >= number)
        assert not self.is_over(run_id), "the run ended before the fault"

    def told(self, run_id: str, *, seconds: float = 300.0) -> Told:
        """Wait for the run's end, audit it, and return what it came to."""
        deadline = time.monotonic() + seconds
        while not self.is_over(run_id):
            assert time.monotonic() < deadline, f"the run goes on after {seconds:g} s: {self._poll(run_id)}"
            time.sleep(0.2)
        assert violated(self.ledger, run_id) == []
        found = Client(http=self.http).stress_tests.get(run_id).audit(self.folder / "store")
        assert found.violations == []
        items = list(self.ledger.items.of(run_id, Item))
        run = self.ledger.runs.get(run_id)
        assert run.ended_at is not None
        return told_of(run.state, items, (run.ended_at - run.created_at).total_seconds())

    def _counts(self, run_id: str) -> tuple[str, int]:
        run = self._poll(run_id)
        counts = run["request_counts"]
        return run["state"], counts["total"] - counts["pending"]

    def _poll(self, run_id: str) -> dict[str, Any]:
        answer = self.http.get(f"/v1/runs/{run_id}")
        self.polls.append(answer.status_code)
        found: dict[str, Any] = answer.json()
        return found


def told_of(state: str, items: list[Item], seconds: float) -> Told:
    """Split what a run recorded into what equal runs share and what they do not."""
    of_the_clock: Any = {"id": True, "attempts": True, "result": {"service_seconds", "cost"}}
    assert len({item.ordinal for item in items}) == len(items), "an item is there twice"
    revisions: dict[str, set[str]] = {}
    for item in items:
        for model, revision in (item.result.models if item.result else {}).items():
            revisions.setdefault(model, set()).add(revision)
    return Told(
        state=state,
        items={str(item.ordinal): item.model_dump(mode="json", exclude=of_the_clock) for item in items},
        tries={str(item.ordinal): item.attempts for item in items},
        seconds=seconds,
        revisions=revisions,
    )


def upload(http: httpx.Client, folder: Path) -> None:
    """Make the dataset of the reference run, of images that the fakes know."""
    world = FakeWorld(store=SharedStore(BlobStore(str(folder / "store"))))
    world.shown = KeptShown(folder / "shown")
    http.post("/v1/datasets", json={"name": "demo"}).raise_for_status()
    sources = []
    for label in CLASSES:
        for number in range(PER_CLASS):
            shown = Shown(label, CAPTION.format(label=label))
            world.add(shown, number)
            content = base64.b64encode(image(shown, number)).decode()
            sources.append({"filename": f"{label}-{number}.png", "label": label, "content_base64": content})
    http.post("/v1/datasets/demo/sources", json={"sources": sources}).raise_for_status()


def report(name: str, told: Told, undisturbed: Told, kills: int, **more: object) -> None:
    """Write what a fault cost to the file that ``FAULTS_REPORT`` names, if it does, one line of JSON each."""
    file = os.environ.get("FAULTS_REPORT")
    if not file:
        return
    lost = [key for key, item in undisturbed.items.items() if told.items.get(key) != item]
    row = {
        "fault": name,
        "kills": kills,
        "items": len(told.items),
        "state": told.state,
        "states": dict(told.states),
        "differ": len(lost),
        "extra_attempts": told.attempts,
        "seconds": round(told.seconds, 1),
        "undisturbed_seconds": round(undisturbed.seconds, 1),
    } | more
    with Path(file).open("a", encoding="utf-8") as rows:
        rows.write(json.dumps(row) + "\n")


@contextmanager
def reference_runs(folder: Path, **fields: Any) -> Iterator[ReferenceRuns]:
    """Start gateway, worker and fake services, without Ray, and make the dataset; ``fields`` of Programs."""
    own = Programs(migrated_file(folder), folder, world=(str(PER_CLASS),), **fields)
    with (
        started_programs(own, VICTIMS) as running,
        httpx.Client(base_url=running.address, timeout=30.0, trust_env=False) as http,
        closing(Ledger(own.url)) as ledger,
    ):
        upload(http, folder)
        yield ReferenceRuns(folder=folder, programs=running, http=http, ledger=ledger)
