"""A Ray cluster of several nodes on this machine, whose processes a test kills one by one or all at once.

Each node is a process tree of its own with its own raylet, on free ports of 127.0.0.1. Only processes that
were started here are ended.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from counterpose_processes.ports import free_port
from fakes.process_trees import descendants, kill, title
from fakes.processes import look_until

OBJECT_STORE_BYTES = 80 * 2**20
NODE_CPUS = 4
HEAD = 0
STARTS = 3
"""Ray gives a node 30 s to start, which a busy machine may exceed."""
QUICK = {
    # A dead node is noticed after 4 s instead of 25, and nodes without a head end after 10 s instead of 60.
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "10",
    # By default the drivers that Ray itself starts take 127.0.0.1 for this machine's other address.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # Ray kills a proxy that is not ready after 5 s, which happens on a busy machine.
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",
    # As the launcher sets them.
    "RAY_SERVE_PROXY_HEALTH_CHECK_PERIOD_S": "2",
    "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "3",
    "RAY_enable_metrics_collection": "0",
    "DASHBOARD_METRIC_PORT": "-1",
    "AUTOSCALER_METRIC_PORT": "-1",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Ray's workers are patient by default: what else the test runs would take every processor from them.
    "RAY_worker_niceness": "0",
}


@dataclass
class RayNode:
    """One node: the process that started it, and what it told."""

    process: subprocess.Popen[str]
    told: Mapping[str, str]
    orphans: list[int] = field(default_factory=list)
    """What a killed process of the node left behind."""

    @property
    def pid(self) -> int:
        """The root of the node's process tree, itself no process of Ray."""
        return self.process.pid

    @property
    def node_id(self) -> str:
        """Ray's name of the node."""
        return self.told["node"]

    def pids(self, words: str = "") -> list[int]:
        """The node's living processes whose command line, or own title, contains ``words``."""
        # What has ended has no title, though its parent may not have taken note of it.
        pids = [*descendants(self.pid), *self.orphans]
        return [pid for pid in pids if (said := title(pid)) and words in said]

    def kill_one(self, words: str) -> int:
        """Kill the one process with these words; those below it live until they notice."""
        (pid,) = self.pids(words)
        self.orphans += descendants(pid)
        kill(pid)
        return pid

    def kill(self) -> None:
        """Kill every process of the node at once, as if its machine lost its power."""
        pids = self.pids()
        for pid in (self.pid, *pids):
            kill(pid)
        # Closes its pipes, too.
        self.process.communicate()
        look_until(lambda: not any(map(title, pids)))


@dataclass
class RayCluster:
    """A head and worker nodes; ``nodes[0]`` is the head."""

    folder: Path
    environment: dict[str, str]
    head_cpus: float
    gcs_port: int = field(default_factory=free_port)
    dashboard_port: int = field(default_factory=free_port)
    nodes: dict[int, RayNode] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """Where drivers connect: the address of the control store (GCS)."""
        return f"127.0.0.1:{self.gcs_port}"

    @property
    def dashboard(self) -> str:
        """The URL of the dashboard, of which the jobs API and Serve's REST API are parts."""
        return f"http://127.0.0.1:{self.dashboard_port}"

    @property
    def token_file(self) -> Path:
        """The file with the token that every request to Ray must carry."""
        return Path(self.environment["RAY_AUTH_TOKEN_PATH"])

    def http(self) -> httpx.Client:
        """A client of the dashboard with the token."""
        token = self.token_file.read_text(encoding="utf-8")
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.dashboard, headers=headers, timeout=60.0, trust_env=False)

    def start_head(self) -> None:
        """Start the head, or start it again at the same addresses: then it remembers nothing."""
        self.nodes[HEAD] = self._started(
            head=True,
            num_cpus=self.head_cpus,
            gcs_server_port=self.gcs_port,
            include_dashboard=True,
            dashboard_host="127.0.0.1",
            dashboard_port=self.dashboard_port,
            temp_dir=str(self.folder / "head"),
        )

    def add_node(self, cpus: float = NODE_CPUS, resources: Mapping[str, float] | None = None) -> int:
        """Start a worker node and return its number; it joins the head that runs now."""
        number = max(self.nodes, default=HEAD) + 1
        self.nodes[number] = self._started(
            head=False,
            gcs_address=self.address,
            num_cpus=cpus,
            resources=dict(resources or {}),
            temp_dir=str(self.folder / str(number)),
        )
        return number

    def kill_raylet(self, number: int) -> None:
        """Kill the raylet of a node; Ray's other processes there follow it, and the node is lost."""
        self.nodes[number].kill_one("/raylet/raylet ")

    def kill_gcs(self) -> None:
        """Kill the control store, which runs on the head."""
        self.nodes[HEAD].kill_one("/gcs/gcs_server ")

    def kill_head(self) -> None:
        """Kill every process of the head at once."""
        self.nodes.pop(HEAD).kill()

    def restart(self) -> None:
        """Replace the head and all nodes, as an operator does when a head does not answer."""
        workers = len(self.nodes) - 1
        self.stop()
        self.start_head()
        for _ in range(workers):
            self.add_node()

    def remove(self, number: int) -> None:
        """End what is left of a node whose raylet was killed, or kill all of it."""
        self.nodes.pop(number).kill()

    def actors(self, words: str) -> dict[int, int]:
        """The pids of the actors and tasks whose title contains ``words``, and the numbers of their nodes."""
        return {pid: number for number, node in self.nodes.items() for pid in node.pids(f"ray::{words}")}

    def kill_actor(self, words: str) -> int:
        """Kill one process of an actor, such as ``ServeReplica:editor`` or ``ProxyActor``; return its pid."""
        pid = min(self.actors(words), default=None)
        assert pid is not None, f"no actor {words!r} runs on the cluster"
        kill(pid)
        return pid

    def living_nodes(self) -> int:
        """How many nodes Ray itself counts as alive; 0 if its dashboard does not answer."""
        try:
            with self.http() as http:
                answer = http.get("/nodes", params={"view": "summary"}, timeout=5.0)
                found: list[dict[str, Any]] = answer.json()["data"]["summary"]
        except (httpx.HTTPError, ValueError, KeyError):
            return 0
        return sum(one.get("raylet", {}).get("state") == "ALIVE" for one in found)

    def stop(self) -> None:
        """Kill every node."""
        # The head last: nodes whose head is gone write to their logs until they end.
        for number in sorted(self.nodes, reverse=True):
            self.remove(number)

    def _started(self, **fields: Any) -> RayNode:
        common = {
            # By any other address, also of loopback, Ray's processes listen for the whole network.
            "node_ip_address": "127.0.0.1",
            "object_store_memory": OBJECT_STORE_BYTES,
            "include_log_monitor": False,
            # Any free port instead of a fixed one, which another cluster may have.
            "dashboard_agent_listen_port": 0,
            "min_worker_port": 0,
            "max_worker_port": 0,
        }
        # As `ray start` does: else a job's entrypoint may join another cluster that runs on this machine.
        temporary = Path(fields["temp_dir"])
        temporary.mkdir(exist_ok=True)
        (temporary / "ray_current_cluster").write_text(self.address, encoding="utf-8")
        log = self.folder / "nodes.log"
        for _ in range(STARTS):
            with log.open("ab") as said:
                process = subprocess.Popen(
                    [sys.executable, "-m", "fakes.ray_node", json.dumps(common | fields)],
                    env=self.environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=said,
                    text=True,
                )
            assert process.stdout is not None
            if line := process.stdout.readline():
                return RayNode(process, json.loads(line))
            process.communicate()
        raise AssertionError(f"the node did not start: {log.read_text(encoding='utf-8')[-2000:]}")


@contextmanager
def ray_cluster(
    workers: int = 2, *, head_cpus: float = 0, environment: Mapping[str, str] | None = None
) -> Iterator[RayCluster]:
    """Start a head and ``workers`` more nodes; kill them all at the end.

    The folder is not the test's own: Ray puts sockets there, whose paths have at most 107 characters.
    ``environment`` is added to that of every process of Ray.
    """
    folder = Path(tempfile.mkdtemp(prefix="flc-"))
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(32), encoding="utf-8")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    ours = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    cluster = RayCluster(folder, inherited | QUICK | ours | dict(environment or {}), head_cpus)
    try:
        cluster.start_head()
        for _ in range(workers):
            cluster.add_node()
        look_until(lambda: cluster.living_nodes() == workers + 1)
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)
