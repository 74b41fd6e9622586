"""A gateway whose runs are jobs of a Ray cluster on this machine: programs, cluster, database and store."""

from __future__ import annotations

import base64
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from pydantic.main import IncEx

from counterpose_core.contract.jobs import Job
from counterpose_core.contract.runs import Item
from counterpose_gateway.ledger import Ledger
from fakes.killed_programs import Programs, Victim, started_programs
from fakes.ledger_audit import violated
from fakes.process_trees import title
from fakes.ray_cluster import RayCluster, ray_cluster
from fakes.store import image
from fakes.world import CAPTION, CLASSES, Shown

PER_CLASS = 10
"""Images of each of the four classes: 40, of five items each."""
ITEMS = 200
AT_ONCE = 64
"""Images of one upload."""
LEASE_SECONDS = "6"
"""Longer than the stalls of a machine on which three nodes start."""
REQUEST: Mapping[str, Any] = {
    "dataset": "demo", "classifiers": ["leaning"], "seed": 3, "max_edits_per_image": 3,
    "lance_r_edits_per_image": 0, "confirm": False, "outside_suite": "continue",
}  # fmt: skip
# Not the guard in front of it, nor the driver's process that only follows the job.
_WORKER = re.compile(r"^\S*python\S* \S*/counterpose-gateway work .*--attempt \d+$")
_DRIVER = re.compile(r"^\S*python\S* -m counterpose_services\.jobs\.work ")
SERVED: tuple[Victim, ...] = ("services", "serve")


@dataclass(frozen=True)
class Worked:
    """What came of a run, and how many leases of items it took beyond the first of each."""

    results: tuple[str, ...]
    again: int


def worked(ledger: Ledger, run_id: str, total: int = ITEMS) -> Worked:
    """Read a run that must be whole: ended well, each item once, the ledger's books in order."""
    run = ledger.runs.get(run_id)
    assert (run.state, run.request_counts.total) == ("completed", total), run
    assert violated(ledger, run.id) == []
    items = list(ledger.items.of(run.id, Item))
    assert [item.ordinal for item in items] == list(range(total))
    # What an item took, and whom its group asked: of one that is done again alone, fewer services are asked.
    of_the_way: IncEx = {"service_seconds", "cost", "models"}
    left_out: IncEx = {"id": True, "attempts": True, "result": of_the_way}
    told = (json.dumps(item.model_dump(mode="json", exclude=left_out), sort_keys=True) for item in items)
    return Worked(tuple(told), sum(item.attempts - 1 for item in items))


@dataclass
class Asking:
    """What a test asks of a gateway's programs."""

    programs: Programs
    ledger: Ledger

    def call(self, method: str, path: str, body: object = None, key: str | None = None) -> httpx.Response:
        """Ask the gateway."""
        headers = {} if key is None else {"idempotency-key": key}
        return httpx.request(
            method, self.programs.address + path, json=body, headers=headers, timeout=60.0, trust_env=False
        )

    def upload(self, per_class: int = PER_CLASS) -> None:
        """Make the dataset ``demo`` of the images that the services know."""
        sources = []
        for label in CLASSES:
            for number in range(per_class):
                content = base64.b64encode(image(Shown(label, CAPTION.format(label=label)), number)).decode()
                sources.append(
                    {"filename": f"{label}-{number}.png", "label": label, "content_base64": content}
                )
        assert self.call("POST", "/v1/datasets", {"name": "demo"}).status_code == 201
        for first in range(0, len(sources), AT_ONCE):
            part = {"sources": sources[first : first + AT_ONCE]}
            added = self.call("POST", "/v1/datasets/demo/sources", part)
            assert added.status_code == 200, added.text

    def create(self) -> str:
        """Create the stress test of `ITEMS` items, and return its id."""
        answer = self.call("POST", "/v1/stress-tests", dict(REQUEST))
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def ended_items(self, run_id: str) -> int:
        """How many items of a run have ended."""
        counts = self.ledger.runs.get(run_id).request_counts
        return counts.total - counts.pending


@dataclass
class JobStack(Asking):
    """The same with a cluster, which runs the jobs and whose processes are killed."""

    cluster: RayCluster

    def submit(self, workers: int = 2, key: str | None = None, **request: Any) -> Job:
        """Submit the stress test of `ITEMS` items as a job."""
        run = {"kind": "stress-test", "request": {**REQUEST, **request}}
        body = {"cluster": "local", "workers": workers, "run": run}
        answer = self.call("POST", "/v1/jobs", body, key)
        assert answer.status_code == 202, answer.text
        return Job.model_validate_json(answer.content)

    def workers(self) -> list[int]:
        """The processes on the cluster that work on items."""
        return [pid for pid in self._processes() if _WORKER.search(title(pid))]

    def drivers(self) -> list[int]:
        """The entrypoints of jobs on the cluster."""
        return [pid for pid in self._processes() if _DRIVER.search(title(pid))]

    def _processes(self) -> list[int]:
        return [pid for node in self.cluster.nodes.values() for pid in node.pids()]


@contextmanager
def job_stack(
    url: str,
    folder: Path,
    *,
    nodes: int = 2,
    seconds: float = 0.0,
    head_cpus: float = 0,
    own: Programs | None = None,
) -> Iterator[JobStack]:
    """Run services, gateway and cluster until the block ends; each call to a service takes ``seconds``.

    ``own`` are programs of other services, whose settings are kept.
    """
    folder.mkdir(parents=True, exist_ok=True)
    own = own or Programs(url, folder, world=(str(PER_CLASS), "", str(seconds)))
    leases = own.more | {"COUNTERPOSE_LEASE_SECONDS": LEASE_SECONDS}
    own.more = leases
    # What a node's image brings: the programs, and where the database, the store and the secret are.
    node = own.settings | {
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
    }
    with ray_cluster(nodes, head_cpus=head_cpus, environment=node) as cluster:
        own.more = leases | {
            "COUNTERPOSE_CLUSTERS": f"local={cluster.dashboard}",
            "COUNTERPOSE_CLUSTER_TOKEN_FILES": str(cluster.token_file),
        }
        with started_programs(own, SERVED) as programs, closing(Ledger(url)) as ledger:
            yield JobStack(programs, ledger, cluster)
