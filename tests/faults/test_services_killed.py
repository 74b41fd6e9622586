"""F1, F2, F4, F5, F8 and F9: what runs on the cluster is killed, or starved, during the reference run."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from counterpose_services.settings import SERVICES
from fakes.cluster_stack import START_SECONDS, ClusterStack, cluster_stack
from fakes.processes import look_until
from fakes.reference_run import ITEMS, Told, report

KILLS = 5
# What a killed replica costs at most, beside the work that is repeated.
SECONDS_PER_KILL = 20.0
ATTEMPTS = 3
BACK_SECONDS = 150.0


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterStack]:
    two = {"min_replicas": 2, "max_replicas": 2}
    with cluster_stack(tmp_path_factory.mktemp("stack"), editor=two) as running:
        yield running


@pytest.fixture(scope="module")
def undisturbed(stack: ClusterStack) -> Told:
    told = stack.told(stack.start_run())
    assert told.state == "completed"
    assert set(told.states) <= {"done", "filtered"}
    assert len(told.items) == ITEMS
    report("undisturbed", told, told, kills=0)
    return told


@contextmanager
def nothing_lost(
    stack: ClusterStack, undisturbed: Told, name: str, kills: int, *, seconds: float = SECONDS_PER_KILL
) -> Iterator[str]:
    """Start the reference run, and hold it to the undisturbed one when the block has killed what it kills."""
    stack.polls.clear()
    run_id = stack.start_run()
    yield run_id
    told = stack.told(run_id)
    report(name, told, undisturbed, kills)
    assert told.state == "completed"
    assert told.items == undisturbed.items
    assert set(stack.polls) == {200}
    assert told.seconds <= undisturbed.seconds + kills * seconds


@pytest.mark.fault("F1")
@pytest.mark.timeout(1000)
def test_f01_an_editor_killed_five_times_loses_nothing(stack: ClusterStack, undisturbed: Told) -> None:
    draw = random.Random(1)
    with nothing_lost(stack, undisturbed, "F1", KILLS) as run_id:
        for kill in range(KILLS):
            stack.wait_for_items(run_id, (kill + 1) * ITEMS // (KILLS + 2))
            time.sleep(draw.uniform(0.0, 0.5))
            look_until(lambda: bool(stack.cluster.actors("ServeReplica:editor")))
            stack.cluster.kill_actor("ServeReplica:editor")


@pytest.mark.fault("F2")
@pytest.mark.timeout(1000)
def test_f02_each_other_service_killed_once_loses_nothing(stack: ClusterStack, undisturbed: Told) -> None:
    others = [service for service in SERVICES if service != "editor"]
    with nothing_lost(stack, undisturbed, "F2", len(others)) as run_id:
        for number, service in enumerate(others, start=1):
            stack.wait_for_items(run_id, number * ITEMS // (len(others) + 2))
            stack.cluster.kill_actor(f"ServeReplica:{service}")


@pytest.mark.fault("F4")
@pytest.mark.timeout(1000)
@pytest.mark.parametrize("actor", ["ProxyActor", "ServeController"])
def test_f04_a_killed_proxy_or_controller_loses_nothing(
    stack: ClusterStack, undisturbed: Told, actor: str
) -> None:
    with nothing_lost(stack, undisturbed, f"F4 {actor}", 1) as run_id:
        stack.wait_for_items(run_id, ITEMS // 4)
        killed = stack.cluster.kill_actor(actor)
        look_until(lambda: set(stack.cluster.actors(actor)) not in (set(), {killed}))


@pytest.mark.fault("F9")
@pytest.mark.timeout(1000)
def test_f09_an_item_without_memory_fails_alone(stack: ClusterStack, undisturbed: Told) -> None:
    hungry = next(
        key for key, item in undisturbed.items.items() if item["edit_type"] == "domain" and int(key) > 17
    )
    item = undisturbed.items[hungry]
    named = stack.folder / "hungry"
    named.write_text(f"{item['source_image']} {item['result']['edited_caption']}", encoding="utf-8")
    told = stack.told(stack.start_run())
    named.unlink()
    report("F9", told, undisturbed, 0)
    assert (told.items[hungry]["state"], told.items[hungry]["code"]) == ("failed", "resource-exhausted")
    assert told.tries[hungry] <= ATTEMPTS
    others = {key: item for key, item in undisturbed.items.items() if key != hungry}
    assert {key: item for key, item in told.items.items() if key != hungry} == others


@pytest.mark.fault("F8")
@pytest.mark.timeout(1000)
def test_f08_a_lost_node_loses_nothing(stack: ClusterStack, undisturbed: Told) -> None:
    cluster = stack.cluster
    with nothing_lost(stack, undisturbed, "F8", 1) as run_id:
        stack.wait_for_items(run_id, ITEMS // 4)
        lost = max(cluster.nodes)
        assert lost in cluster.actors("ServeReplica").values(), "the node that is to be lost does nothing"
        cluster.kill_raylet(lost)
    cluster.remove(lost)
    assert set(cluster.actors("ServeReplica").values()) == {1}
    cluster.add_node()


@pytest.mark.fault("F5")
@pytest.mark.timeout(1000)
def test_f05_a_killed_control_store_loses_nothing(stack: ClusterStack, undisturbed: Told) -> None:
    cluster = stack.cluster
    with nothing_lost(stack, undisturbed, "F5", 1, seconds=BACK_SECONDS) as run_id:
        stack.wait_for_items(run_id, ITEMS // 4)
        cluster.kill_gcs()
        look_until(lambda: cluster.living_nodes() == 0)
        # What supervises the head starts it again; Ray remembers nothing.
        cluster.restart()
        stack.deploy()
        look_until(stack.is_settled, START_SECONDS)
        before = stack.ended_items(run_id)
        # The run may have ended while the services settled.
        look_until(lambda: before == ITEMS or stack.ended_items(run_id) > before)
