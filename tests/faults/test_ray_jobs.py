"""A run as a Ray job on a cluster of several nodes: whatever is killed at half-way, nothing of it is lost."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from pydantic.main import IncEx

from fakes.cluster_jobs import ITEMS, JobStack, job_stack
from fakes.postgres import postgres
from fakes.process_trees import kill
from fakes.processes import look_until
from fakes.ray_cluster import HEAD
from faultline_core.contract.jobs import Job
from faultline_core.contract.runs import Item
from faultline_core.types import FINAL_JOB_STATES

PATIENCE_SECONDS = 240.0
"""Of a job: an attempt takes 15 s to start, and as long passes before a lost one is found."""
CALL_SECONDS = 0.3
"""Of each call to a service: so that a run takes long enough to be killed in its middle."""
WORKERS = 2


_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Worked:
    """What came of a run, and what it took."""

    results: tuple[str, ...]
    again: int
    """Leases of items beyond the first of each."""
    attempts: int


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobStack]:
    """One cluster of a head without CPUs and two nodes; each test leaves as many."""
    folder = tmp_path_factory.mktemp("jobs") / "state"
    with postgres() as server, job_stack(server.empty_database(), folder, seconds=CALL_SECONDS) as opened:
        opened.upload()
        yield opened


@pytest.fixture(scope="module")
def undisturbed(stack: JobStack) -> Worked:
    """The run that nobody kills."""
    return ended(stack, stack.submit(workers=WORKERS))


def ended(stack: JobStack, job: Job) -> Worked:
    """Wait for the end of a job whose run must be whole."""
    look_until(lambda: stack.ledger.job(job.id).state in FINAL_JOB_STATES, seconds=PATIENCE_SECONDS)
    told = stack.ledger.job(job.id)
    assert told.state == "completed", told
    assert told.run is not None
    run = stack.ledger.run(told.run)
    assert (run.state, run.request_counts.total) == ("completed", ITEMS)
    assert stack.ledger.audit(run.id) == []
    items = list(stack.ledger.items_of(run.id, Item))
    assert [item.ordinal for item in items] == list(range(ITEMS))
    of_the_clock: IncEx = {"service_seconds", "cost"}
    left_out: IncEx = {"id": True, "attempts": True, "result": of_the_clock}
    results = tuple(
        json.dumps(item.model_dump(mode="json", exclude=left_out), sort_keys=True) for item in items
    )
    return Worked(results, sum(item.attempts - 1 for item in items), len(told.attempts))


def at_half_way(stack: JobStack) -> Job:
    """Submit a job and wait until half of its items have ended."""
    job = stack.submit(workers=WORKERS)
    assert job.run is not None
    run_id = job.run
    look_until(lambda: stack.ended_items(run_id) >= ITEMS // 2, seconds=PATIENCE_SECONDS)
    assert stack.ended_items(run_id) < ITEMS, "it ended before anything was killed"
    return job


def kill_child(stack: JobStack) -> None:
    """Kill the program that one of the actors keeps."""
    kill(stack.workers()[0])


def kill_actor(stack: JobStack) -> None:
    """Kill one actor."""
    stack.cluster.kill_actor("JobWorker")


def kill_driver(stack: JobStack) -> None:
    """Kill the entrypoint."""
    for pid in stack.drivers():
        kill(pid)


def kill_node(stack: JobStack) -> None:
    """Kill a node's raylet; another node comes in its place."""
    number = max(stack.cluster.nodes)
    stack.cluster.kill_raylet(number)
    look_until(lambda: not stack.cluster.nodes[number].pids("JobWorker"))
    stack.cluster.remove(number)
    stack.cluster.add_node()


def kill_head(stack: JobStack) -> None:
    """Kill the head, and start a head that knows nothing, with new nodes."""
    stack.cluster.kill_head()
    for number in [number for number in stack.cluster.nodes if number != HEAD]:
        # Nodes without a head end by themselves; what their workers record until then counts.
        look_until(lambda number=number: not stack.cluster.nodes[number].pids("raylet"))  # type: ignore[misc]  # mypy knows no default
        stack.cluster.remove(number)
    stack.cluster.start_head()
    for _ in range(2):
        stack.cluster.add_node()


def kill_gateway(stack: JobStack) -> None:
    """Kill the gateway with its launcher, and start it again."""
    stack.programs.kill("serve")
    stack.programs.start("serve")


Fault = Callable[[JobStack], None]
# The head last: it takes all nodes with it.
FAULTS: dict[str, tuple[Fault, int]] = {
    "child": (kill_child, 1),
    "actor": (kill_actor, 1),
    "gateway": (kill_gateway, 1),
    "driver": (kill_driver, 2),
    "node": (kill_node, 1),
    "head": (kill_head, 2),
}
"""What is killed, and how many attempts the job may then need."""


@pytest.mark.fault("F5", "F8")
@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_is_lost_whatever_is_killed_at_half_way(
    fault: str, stack: JobStack, undisturbed: Worked
) -> None:
    happen, attempts = FAULTS[fault]
    job = at_half_way(stack)
    happen(stack)
    worked = ended(stack, job)
    _logger.info("%s: %d items again, %d attempts", fault, worked.again, worked.attempts)
    assert worked.results == undisturbed.results
    # The driver may run on the node that is lost.
    assert worked.attempts <= attempts + (fault == "node")
    # At most what was in hand: each of two workers has four groups of five items.
    assert worked.again <= WORKERS * 4 * 5
    with stack.cluster.http() as http:
        last = stack.ledger.job(job.id).attempts[-1].submission_id
        assert http.get(f"/api/jobs/{last}").json()["status"] == "SUCCEEDED"


def test_an_undisturbed_job_needs_one_attempt_and_does_nothing_twice(undisturbed: Worked) -> None:
    assert (undisturbed.attempts, undisturbed.again) == (1, 0)
