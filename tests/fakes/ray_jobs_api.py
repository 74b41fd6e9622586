"""Ray's jobs API as an httpx transport: what Ray 2.60 answers, without a cluster.

``tests/faults/test_ray_jobs_api.py`` holds it to a real head.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from counterpose_gateway.jobs.ray_cluster import Clusters, RayCluster

TOKEN = "t" * 64
VERSION = "2.60.0"
NAME = "cluster"
URL = "http://head:8265"


@dataclass
class FakeRayJobs:
    """A head with token authentication; a submitted job is RUNNING until the test says otherwise."""

    token: str = TOKEN
    version: str = VERSION
    down: bool = False
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    submitted: list[dict[str, Any]] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    lost_answers: int = 0
    """Submissions that the head takes without the caller hearing of it."""

    def handle(self, request: httpx.Request) -> httpx.Response:
        """Answer as the dashboard does."""
        if self.down:
            raise httpx.ConnectError("connection refused", request=request)
        given = request.headers.get("authorization")
        if given is None:
            return httpx.Response(401, text="Unauthorized: Missing authentication token")
        if given != f"Bearer {self.token}":
            return httpx.Response(403, text="Forbidden: Invalid authentication token")
        match (request.method, request.url.path.split("/")[2:]):
            case ("GET", ["version"]):
                return httpx.Response(200, json={"version": "4", "ray_version": self.version})
            case ("POST", ["jobs", ""]):
                return self._submit(json.loads(request.content), request)
            case ("GET", ["jobs", submission_id]):
                return self._told(submission_id)
            case ("POST", ["jobs", submission_id, "stop"]):
                return self._stop(submission_id)
        return httpx.Response(404, text="404: Not Found")

    def restart(self) -> None:
        """Start the head anew: it remembers no job."""
        self.jobs.clear()

    def end(self, submission_id: str, status: str = "FAILED", message: str = "exit code 1") -> None:
        """Let a job end."""
        self.jobs[submission_id] |= {"status": status, "message": message}

    def _submit(self, body: dict[str, Any], request: httpx.Request) -> httpx.Response:
        submission_id = body["submission_id"]
        if submission_id in self.jobs:
            error = (
                f"ValueError: Job with submission_id {submission_id} already exists. Please use a different"
            )
            said = f"Traceback (most recent call last):\n{error} submission_id.\n"
            # What an agent on another node answers, the head passes on within an error of its own.
            asked = f"RuntimeError: Request failed with status code 400: {said}.\n"
            return httpx.Response(500, text=f"Traceback (most recent call last):\n{asked}")
        self.submitted.append(body)
        self.jobs[submission_id] = {"status": "RUNNING", "message": "Job is currently running.", **body}
        if self.lost_answers:
            self.lost_answers -= 1
            raise httpx.ReadTimeout("no answer", request=request)
        return httpx.Response(200, json={"job_id": submission_id, "submission_id": submission_id})

    def _told(self, submission_id: str) -> httpx.Response:
        if submission_id not in self.jobs:
            return httpx.Response(404, text=f"Job {submission_id} does not exist")
        return httpx.Response(200, json={"type": "SUBMISSION", **self.jobs[submission_id]})

    def _stop(self, submission_id: str) -> httpx.Response:
        if submission_id not in self.jobs:
            return httpx.Response(404, text=f"Job {submission_id} does not exist")
        self.stopped.append(submission_id)
        self.end(submission_id, "STOPPED", "Job was intentionally stopped.")
        return httpx.Response(200, json={"stopped": True})


def clusters_of(ray: FakeRayJobs, folder: Path, token: str = TOKEN, **names: FakeRayJobs) -> Clusters:
    """The cluster `NAME`, and others by name, asked with a token from a file in ``folder``."""
    file = folder / "cluster-token"
    file.touch(mode=0o600)
    file.write_text(token, encoding="utf-8")
    return Clusters({name: _asked(name, of, file) for name, of in {NAME: ray, **names}.items()})


def _asked(name: str, ray: FakeRayJobs, token_file: Path) -> RayCluster:
    http = httpx.AsyncClient(transport=httpx.MockTransport(ray.handle))
    return RayCluster(name, URL, http=http, token_file=token_file, versions=("2.60",))
