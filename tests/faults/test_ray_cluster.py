"""The cluster that the fault tests share: what they kill is really lost, and nothing of it outlives them."""

from __future__ import annotations

import httpx
import pytest

from fakes.process_trees import title
from fakes.processes import look_until
from fakes.ray_cluster import HEAD, ray_cluster


@pytest.mark.fault("T11")
def test_nodes_and_head_are_lost_and_come_back_and_all_processes_end() -> None:
    with ray_cluster(workers=2) as cluster:
        assert httpx.get(f"{cluster.dashboard}/api/version", trust_env=False).status_code == 401
        with cluster.http() as http:
            assert http.get("/api/version").json()["ray_version"] == cluster.nodes[HEAD].told["ray"]
        cluster.kill_raylet(2)
        look_until(lambda: cluster.living_nodes() == 2)
        look_until(lambda: not cluster.nodes[2].pids())
        cluster.remove(2)
        cluster.add_node()
        look_until(lambda: cluster.living_nodes() == 3)
        cluster.kill_head()
        cluster.start_head()
        look_until(lambda: cluster.living_nodes() == 1)
        pids = [pid for node in cluster.nodes.values() for pid in (node.pid, *node.pids())]
        assert all(map(title, pids))
        folder = cluster.folder
    assert not any(map(title, pids))
    assert not folder.exists()
