"""A Ray cluster's jobs API over HTTP, as Ray 2.60 serves it on its dashboard's port.

Ray's own client is not used: the gateway has no Ray. What it relies on, in ``ray/dashboard/modules/job``:

- ``GET /api/version`` names the version of Ray.
- ``POST /api/jobs/`` accepts a submission id once: it is put into the cluster's table only if it is not
  there, and a second one is answered "already exists": with 400, or with 500 where the head has asked the
  agent of another node.
- ``GET /api/jobs/{id}`` answers 404 for an id that the cluster does not know, such as every id after its head
  was started anew.
- ``POST /api/jobs/{id}/stop`` ends the entrypoint and the actors that it started.
- With token authentication, each wants ``Authorization: Bearer <token>`` and answers 401 without one and 403
  to a wrong one (``ray/_private/authentication``).

The clusters that the operator named; a request can name no other.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from counterpose_core.errors import BackendUnavailable, BadBackendOutput, ClusterRefused, InvalidRequest
from counterpose_core.secret_files import read_secret
from counterpose_gateway.settings import OTHERS, GatewaySettings

CALL_SECONDS = 15.0
"""Ray waits up to 10 s for a node that takes a job."""

RayStatus = Literal["PENDING", "RUNNING", "STOPPED", "SUCCEEDED", "FAILED"]
ENDED: tuple[RayStatus, ...] = ("STOPPED", "SUCCEEDED", "FAILED")
_REFUSALS = (401, 403)


Parsed = TypeVar("Parsed", bound=BaseModel)


class _Version(BaseModel):
    ray_version: str


class RayJob(BaseModel):
    """What Ray tells of a job."""

    status: RayStatus
    message: str | None = None

    @property
    def ended(self) -> bool:
        """Whether the entrypoint does not run any more."""
        return self.status in ENDED


@dataclass(frozen=True, kw_only=True)
class Submission:
    """What is sent to a cluster; none of it is secret, because Ray shows it to everyone who may ask."""

    submission_id: str
    entrypoint: str
    metadata: Mapping[str, str]
    cpus: float


class RayCluster:
    """One cluster that the operator named, asked over a shared pool of connections.

    await cluster.check()
    await cluster.submit(submission)
    found = await cluster.job(submission.submission_id)

    Every call raises BackendUnavailable if the cluster does not answer, and ClusterRefused if it does not
    take the token.
    """

    def __init__(
        self,
        name: str,
        url: str,
        *,
        http: httpx.AsyncClient,
        token_file: Path | None,
        versions: tuple[str, ...],
    ) -> None:
        self.name = name
        self._url = url.rstrip("/")
        self._http = http
        self._token_file = token_file
        self._versions = versions

    async def check(self) -> None:
        """Ask for the version of Ray, and refuse one that the gateway was not tested with."""
        found = self._parsed(await self._call("GET", "/api/version"), _Version).ray_version
        if ".".join(found.split(".")[:2]) not in self._versions:
            raise ClusterRefused(
                f"the cluster {self.name!r} runs Ray {found}, and the gateway takes "
                f"{', '.join(self._versions)}; install that one, or allow another by COUNTERPOSE_RAY_VERSIONS"
            )

    async def submit(self, submission: Submission) -> None:
        """Submit a job; one that the cluster has already under this id is left as it is."""
        answer = await self._call(
            "POST",
            "/api/jobs/",
            {
                "entrypoint": submission.entrypoint,
                "submission_id": submission.submission_id,
                "metadata": dict(submission.metadata),
                # Otherwise Ray puts the entrypoint on the head, which of a cluster has no room for it.
                "entrypoint_num_cpus": submission.cpus,
            },
        )
        if f"{submission.submission_id} already exists" in answer.text:
            return
        if answer.status_code == 400:
            raise ClusterRefused(f"the cluster {self.name!r} refuses the job: {_last_line(answer)}")
        self._require_success(answer)

    async def job(self, submission_id: str) -> RayJob | None:
        """Return what Ray tells of a job, or None if the cluster does not know it."""
        answer = await self._call("GET", f"/api/jobs/{submission_id}")
        return None if answer.status_code == 404 else self._parsed(answer, RayJob)

    async def stop(self, submission_id: str) -> None:
        """Ask Ray to stop a job; one that the cluster does not know needs no stop."""
        answer = await self._call("POST", f"/api/jobs/{submission_id}/stop")
        if answer.status_code != 404:
            self._require_success(answer)

    async def _call(self, method: str, path: str, body: object = None) -> httpx.Response:
        try:
            answer = await self._http.request(
                method, self._url + path, json=body, headers=self._headers(), timeout=CALL_SECONDS
            )
        except httpx.HTTPError as error:
            # Not the address, which is the operator's: whoever submits a job reads this.
            raise BackendUnavailable(
                f"the cluster {self.name!r} does not answer ({type(error).__name__}); start it, or mend its "
                "address in COUNTERPOSE_CLUSTERS"
            ) from error
        if answer.status_code in _REFUSALS:
            raise ClusterRefused(
                f"the cluster {self.name!r} refuses the gateway's token ({answer.status_code}); write the "
                "cluster's token into the file that COUNTERPOSE_CLUSTER_TOKEN_FILES names"
            )
        return answer

    def _headers(self) -> dict[str, str]:
        if self._token_file is None:
            return {}
        try:
            # Read for each call: a head that was started anew may have another token.
            token = read_secret(self._token_file, variable="COUNTERPOSE_CLUSTER_TOKEN_FILES")
        except ValueError as error:
            raise ClusterRefused(f"the token of the cluster {self.name!r}: {error}") from error
        return {"authorization": f"Bearer {token}"}

    def _require_success(self, answer: httpx.Response) -> None:
        if not answer.is_success:
            raise BackendUnavailable(
                f"the cluster {self.name!r} answered {answer.status_code}: {_last_line(answer)}"
            )

    def _parsed(self, answer: httpx.Response, shape: type[Parsed]) -> Parsed:
        self._require_success(answer)
        try:
            return shape.model_validate_json(answer.content)
        except ValidationError as error:
            raise BadBackendOutput(
                f"what answers as the cluster {self.name!r} is not Ray's jobs API; mend its address in "
                "COUNTERPOSE_CLUSTERS"
            ) from error


def _last_line(answer: httpx.Response) -> str:
    # Ray answers with a traceback, whose last line is the error; of one that it passes on, a stop follows it.
    lines = [line for line in answer.text.splitlines() if line.strip(" .")]
    return lines[-1][:300] if lines else "it said nothing"


class Clusters:
    """Ray clusters by name."""

    def __init__(self, clusters: Mapping[str, RayCluster]) -> None:
        self._clusters = dict(clusters)

    def __bool__(self) -> bool:
        return bool(self._clusters)

    def named(self, name: str) -> RayCluster:
        """Return a cluster.

        Raises:
            InvalidRequest: the operator named none like this.
        """
        if name not in self._clusters:
            known = ", ".join(map(repr, self._clusters)) or "none; set COUNTERPOSE_CLUSTERS"
            raise InvalidRequest(f"unknown cluster {name!r}: the gateway has {known}", pointer="/cluster")
        return self._clusters[name]


@asynccontextmanager
async def reaching_clusters(settings: GatewaySettings) -> AsyncIterator[Clusters]:
    """Hold a pool of connections to the clusters, without proxies: the tokens must not leave the network."""
    async with httpx.AsyncClient(trust_env=False) as http:
        yield Clusters(
            {
                name: RayCluster(
                    name,
                    url,
                    http=http,
                    token_file=settings.cluster_token_files.get(
                        name, settings.cluster_token_files.get(OTHERS)
                    ),
                    versions=settings.ray_versions,
                )
                for name, url in settings.clusters.items()
            }
        )
