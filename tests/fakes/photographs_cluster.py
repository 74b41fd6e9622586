"""The suite for photographs on a Ray cluster: the real classifiers, gateway and workers, and drawn images."""

from __future__ import annotations

import base64
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from PIL import Image

from counterpose_core.contract.jobs import Job
from counterpose_core.contract.runs import Item
from counterpose_core.types import FINAL_JOB_STATES, FINAL_RUN_STATES
from counterpose_gateway.ledger import Ledger
from counterpose_processes.ports import free_port
from counterpose_services.serving.serve_config import serve_config
from counterpose_services.settings import ServiceSettings
from fakes.killed_programs import Programs, started_programs, write_secret
from fakes.ledger_audit import violated
from fakes.postgres import postgres
from fakes.process_trees import title
from fakes.processes import look_until
from fakes.ray_cluster import RayCluster, ray_cluster
from fakes.tiny_models.timm import save_timm

SUITE = "photographs"
CLASSES = ("cat", "dog", "owl", "fox")
LEASE_SECONDS = 10.0
START_SECONDS = 500.0
START_OF_A_REPLICA_SECONDS = 5.0
"""Beyond its process: a service that may have no replica must say how long its first call waits for one."""
AT_ONCE = 64
"""Images of one upload."""
CLASSIFIER = "local:tiny"


@dataclass
class PhotographsCluster:
    """The cluster with the classifiers on it, and a gateway whose jobs run there, too."""

    cluster: RayCluster
    programs: Programs
    ledger: Ledger
    settings: ServiceSettings

    def deploy(self, least: int, most: int) -> None:
        """Let the classifiers have so many replicas, and wait until there are the fewest."""
        own = {"min_replicas": least, "max_replicas": most, "start_s": START_OF_A_REPLICA_SECONDS}
        scaled = ServiceSettings.model_validate(
            self.settings.model_dump(exclude_unset=True) | {"classifiers": own}
        )
        config = serve_config(scaled, ("classifiers",))
        with self.cluster.http() as http:
            answer = http.put("/api/serve/applications/", json=config)
        assert answer.is_success, answer.text
        look_until(lambda: self.state() in ("RUNNING", "DEPLOY_FAILED"), START_SECONDS)
        assert self.state() == "RUNNING"
        look_until(lambda: len(self.replicas("RUNNING")) == len(self.replicas()) == least, START_SECONDS)

    def state(self) -> str:
        """The state of the classifiers' application, as Ray Serve names it."""
        with self.cluster.http() as http:
            shown = http.get("/api/serve/applications/", timeout=10.0).json()["applications"]
        return str(shown.get("classifiers", {}).get("status", "NOT_STARTED"))

    def replicas(self, state: str | None = None) -> list[str]:
        """The replicas of the classifiers, in whatever state or in the given one."""
        try:
            with self.cluster.http() as http:
                told = http.get("/api/serve/applications/", timeout=10.0).json()["applications"]
        except (httpx.HTTPError, ValueError, KeyError):
            return ["unknown"]
        known = told.get("classifiers", {}).get("deployments", {}).get("classifiers", {}).get("replicas", [])
        return [one["replica_id"] for one in known if state in (None, one["state"])]

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Ask the gateway."""
        address = self.programs.address + path
        answer = httpx.request(method, address, json=body, timeout=120.0, trust_env=False)
        assert answer.is_success, answer.text
        return answer.json()

    def upload(self, name: str, images: int, side: int) -> None:
        """Make a dataset of drawn images of so many pixels a side, of every class as many."""
        self.call("POST", "/v1/datasets", {"name": name})
        for first in range(0, images, AT_ONCE):
            sources = [_source(number, side) for number in range(first, min(images, first + AT_ONCE))]
            self.call("POST", f"/v1/datasets/{name}/sources", {"sources": sources})

    def start_run(self, dataset: str, **changes: object) -> str:
        """Start a run of all operations of the suite at one level, and return its id."""
        return str(self.call("POST", "/v1/stress-tests", request(dataset) | changes)["id"])

    def start_job(self, dataset: str, workers: int) -> Job:
        """Start the same as a Ray job."""
        body = {
            "cluster": "local",
            "workers": workers,
            "run": {"kind": "stress-test", "request": request(dataset)},
        }
        return Job.model_validate(self.call("POST", "/v1/jobs", body))

    def ended_items(self, run_id: str) -> int:
        """How many items of a run have ended."""
        counts = self.ledger.runs.get(run_id).request_counts
        return counts.total - counts.pending

    def ended(self, run_id: str, seconds: float) -> tuple[list[Item], int]:
        """Wait for a run's end; return its items, and the attempts beyond the first of each."""
        look_until(lambda: self.ledger.runs.get(run_id).state in FINAL_RUN_STATES, seconds)
        run = self.ledger.runs.get(run_id)
        assert run.state == "completed", run
        assert violated(self.ledger, run_id) == []
        items = list(self.ledger.items.of(run_id, Item))
        assert [item.ordinal for item in items] == list(range(run.request_counts.total))
        return items, sum(item.attempts - 1 for item in items)

    def ended_job(self, job: Job, seconds: float) -> Job:
        """Wait for a job's end."""
        look_until(lambda: self.ledger.jobs.get(job.id).state in FINAL_JOB_STATES, seconds)
        return self.ledger.jobs.get(job.id)

    def job_programs(self) -> list[int]:
        """The processes of the cluster that work on a job's items, and the drivers that watch them."""
        pids = [pid for node in self.cluster.nodes.values() for pid in node.pids()]
        words = ("counterpose-gateway work", "counterpose_services.jobs.work")
        return [pid for pid in pids if any(each in title(pid) for each in words)]

    @contextmanager
    def more_workers(self, number: int) -> Iterator[None]:
        """Run so many further workers until the block ends."""
        environment = os.environ | self.programs.settings
        command = [sys.executable, "-m", "counterpose_gateway.main", "work"]
        with ExitStack() as ends:
            for place in range(number):
                log = ends.enter_context((self.programs.folder / f"work-{place}.log").open("ab"))
                process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
                ends.callback(process.wait)
                ends.callback(process.terminate)
            yield


def answers(items: Iterable[Item]) -> list[tuple[object, ...]]:
    """What was answered to every image, by recipe and pixels; shares to what batches may change."""
    return [
        (item.ordinal, each.recipe, each.pixels, pair.hits, round(pair.score, 3))
        for item in items
        if item.result is not None
        for each in item.result.transformed
        for pair in each.predictions.values()
    ]


def request(dataset: str) -> dict[str, Any]:
    """All operations of the suite at one level."""
    return {"dataset": dataset, "classifiers": [CLASSIFIER], "seed": 5, "transforms": {"levels": [3]}}


def _source(number: int, side: int) -> dict[str, str]:
    generator = np.random.default_rng(number)
    pixels = np.full((side, side, 3), generator.integers(40, 216, 3), dtype=np.uint8)
    top, left = generator.integers(0, side // 2, 2)
    pixels[top : top + side // 2, left : left + side // 2] = generator.integers(0, 256, 3)
    # No two alike: equal images would be one source.
    pixels[0, 0] = (number >> 16) & 255, (number >> 8) & 255, number & 255
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format="PNG")
    return {
        "filename": f"{number:06}.png",
        "label": CLASSES[number % len(CLASSES)],
        "content_base64": base64.b64encode(file.getvalue()).decode(),
    }


@contextmanager
def photographs_cluster(folder: Path, nodes: int = 2, **settings: Any) -> Iterator[PhotographsCluster]:
    """Start nodes, the classifiers, a gateway and a worker; end them all. ``settings`` are the services'."""
    save_timm(folder / "models" / "tiny", CLASSES)
    services_port = free_port()
    with postgres() as server:
        programs = Programs(
            server.empty_database(),
            folder,
            services_port=services_port,
            lease_seconds=LEASE_SECONDS,
            more={"COUNTERPOSE_SUITE": SUITE},
        )
        served = ServiceSettings.model_validate(
            {
                "suite": SUITE,
                "state_dir": folder,
                "models_folder": folder / "models",
                "port": services_port,
                "upscale_delay_s": 2.0,
                "downscale_delay_s": 6.0,
            }
            | settings
        )
        write_secret(folder)
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        with (
            ray_cluster(nodes, environment=programs.settings | {"PATH": path}) as cluster,
            closing(Ledger(programs.url)) as ledger,
        ):
            programs.more |= {
                "COUNTERPOSE_CLUSTERS": f"local={cluster.dashboard}",
                "COUNTERPOSE_CLUSTER_TOKEN_FILES": str(cluster.token_file),
            }
            stack = PhotographsCluster(cluster, programs, ledger, served)
            stack.deploy(1, 1)
            with started_programs(programs, ("serve", "work")):
                yield stack


def rate(stack: PhotographsCluster, dataset: str, images: int, seconds: float, **changes: object) -> float:
    """Run a dataset, and return its photographs a second from submission to end."""
    began = time.monotonic()
    stack.ended(stack.start_run(dataset, **changes), seconds)
    return images / (time.monotonic() - began)


def report(name: str, **figures: object) -> None:
    """Write figures to the file that ``FAULTS_REPORT`` names, if it does, one line of JSON each."""
    if file := os.environ.get("FAULTS_REPORT"):
        with Path(file).open("a", encoding="utf-8") as rows:
            rows.write(json.dumps({"fault": name} | figures) + "\n")
