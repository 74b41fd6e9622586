"""The whole system on a Ray cluster: fake engines in the real deployments, and the gateway's programs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from counterpose_gateway.ledger import Ledger
from counterpose_processes.ports import free_port
from counterpose_services.serving.serve_config import serve_config
from counterpose_services.settings import ServiceName, ServiceSettings
from fakes.killed_programs import Programs, Victim, started_programs, write_secret
from fakes.ledgers import migrated_file
from fakes.process_trees import resident_bytes
from fakes.processes import look_until
from fakes.ray_cluster import RayCluster, ray_cluster
from fakes.reference_run import ReferenceRuns, upload

EDIT_SECONDS = 0.05
PROGRAMS: tuple[Victim, ...] = ("serve", "work")
LEASE_SECONDS = 10.0
START_SECONDS = 500.0
"""For the services, on a machine that does much else; 30 s on one that does not."""


@dataclass(kw_only=True)
class ClusterStack(ReferenceRuns):
    """The cluster, and the gateway and worker beside it, which are no processes of Ray."""

    cluster: RayCluster
    settings: ServiceSettings
    deployed: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The arguments of each application."""

    def deploy(self, **editor: Any) -> None:
        """Deploy the applications as ``serve deploy`` does: those whose arguments changed are upgraded.

        ``editor`` are settings of the editor's application alone.
        """
        config = serve_config(self.settings)
        for application in config["applications"]:
            application["import_path"] = f"fakes.served_engines:{application['name']}"
            if application["name"] == "editor":
                application["args"] = application["args"] | editor
            self.deployed[application["name"]] = application["args"]
        with self.cluster.http() as http:
            answer = http.put("/api/serve/applications/", json=config)
        assert answer.is_success, answer.text

    def serve_state(self) -> dict[str, Any]:
        """What Serve tells of its applications; empty while it does not answer."""
        try:
            with self.cluster.http() as http:
                answer = http.get("/api/serve/applications/", timeout=10.0)
            found: dict[str, Any] = answer.json()["applications"] if answer.is_success else {}
        except httpx.HTTPError:
            return {}
        return found

    def replicas(self, service: ServiceName, state: str | None = None) -> list[dict[str, Any]]:
        """The replicas of a service that Serve knows, in whatever state or in the given one."""
        deployments = self.serve_state().get(service, {}).get("deployments", {})
        found: list[dict[str, Any]] = deployments.get(service, {}).get("replicas", [])
        return [one for one in found if state in (None, one["state"])]

    def is_settled(self) -> bool:
        """Whether every application runs as it was deployed last, with all of its replicas and no other."""
        state = self.serve_state()
        known = {name: (each["deployed_app_config"] or {}).get("args") for name, each in state.items()}
        if known != self.deployed or any(each["status"] != "RUNNING" for each in state.values()):
            return False
        deployed = [one for each in state.values() for one in each["deployments"].values()]
        return bool(state) and all(
            one["status"] == "HEALTHY"
            and len(one["replicas"]) == one["target_num_replicas"]
            and all(replica["state"] == "RUNNING" for replica in one["replicas"])
            for one in deployed
        )

    def memory_bytes(self, service: ServiceName) -> int:
        """The resident memory of all of a service's replicas and of the proxies."""
        actors = [*self.cluster.actors(f"ServeReplica:{service}"), *self.cluster.actors("ProxyActor")]
        return sum(map(resident_bytes, actors))

    @property
    def shown(self) -> list[str]:
        """The images that the fakes know."""
        return sorted(file.name for file in (self.folder / "shown").iterdir() if "." not in file.name)


@contextmanager
def cluster_stack(
    folder: Path, *, workers: int = 2, edit_seconds: float = EDIT_SECONDS, **settings: Any
) -> Iterator[ClusterStack]:
    """Start a cluster with the services on it, a gateway, a worker and the dataset; end them all.

    ``settings`` are the services'.
    """
    services_port = free_port()
    # Long enough that a busy machine renews them in time.
    programs = Programs(
        migrated_file(folder), folder, services_port=services_port, lease_seconds=LEASE_SECONDS
    )
    served = ServiceSettings.model_validate({"state_dir": folder, "port": services_port} | settings)
    write_secret(folder)
    environment = {
        "FAKE_SHOWN": str(folder / "shown"),
        "FAKE_EDIT_SECONDS": str(edit_seconds),
        "FAKE_HUNGRY": str(folder / "hungry"),
    }
    with (
        ray_cluster(workers, environment=environment) as cluster,
        httpx.Client(base_url=programs.address, timeout=30.0, trust_env=False) as http,
        closing(Ledger(programs.url)) as ledger,
    ):
        stack = ClusterStack(
            folder=folder, programs=programs, http=http, ledger=ledger, cluster=cluster, settings=served
        )
        stack.deploy()
        look_until(stack.is_settled, START_SECONDS)
        with started_programs(programs, PROGRAMS):
            upload(http, folder)
            yield stack
