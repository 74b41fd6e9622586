"""A run as a Ray job on a cluster of several nodes: whatever is killed at half-way, nothing of it is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from counterpose_core.contract.jobs import Job
from counterpose_core.types import FINAL_JOB_STATES
from evaluation.evidence.lost_work import Kill
from fakes.cluster_jobs import ITEMS, JobStack, Worked, job_stack, worked
from fakes.postgres import postgres
from fakes.process_trees import kill
from fakes.processes import look_until

PATIENCE_SECONDS = 240.0
"""Of a job: an attempt takes 15 s to start, and as long passes before a lost one is found."""
CALL_SECONDS = 0.3
"""Of each call to a service: so that a run takes long enough to be killed in its middle."""
WORKERS = 2


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
    found, attempts = ended(stack, stack.submit(workers=WORKERS))
    # Not that nothing was done twice: a machine that stalls for longer than a lease does so.
    assert attempts == 1
    return found


def ended(stack: JobStack, job: Job) -> tuple[Worked, int]:
    """Wait for the end of a job; return what came of its run, and how many attempts it took."""
    look_until(lambda: stack.ledger.jobs.get(job.id).state in FINAL_JOB_STATES, seconds=PATIENCE_SECONDS)
    told = stack.ledger.jobs.get(job.id)
    assert told.state == "completed", told
    assert told.run is not None
    return worked(stack.ledger, told.run), len(told.attempts)


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
    """Lose a node: its raylet first, then all of it; another node comes in its place."""
    number = max(stack.cluster.nodes)
    stack.cluster.kill_raylet(number)
    stack.cluster.remove(number)
    stack.cluster.add_node()


def kill_head(stack: JobStack) -> None:
    """Lose the head, and with it all nodes; start a head that knows nothing, with new nodes."""
    stack.cluster.kill_head()
    for number in list(stack.cluster.nodes):
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
    "one worker's program": (kill_child, 1),
    "one actor": (kill_actor, 1),
    "the gateway": (kill_gateway, 1),
    "the driver": (kill_driver, 2),
    # The driver may have been on that node.
    "one node": (kill_node, 2),
    "the head and all nodes": (kill_head, 2),
}
"""What is killed, and how many attempts the job may then need."""


@pytest.mark.fault("F5", "F8")
@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_is_lost_whatever_is_killed_at_half_way(
    fault: str, stack: JobStack, undisturbed: Worked, measured: Callable[[Kill], None]
) -> None:
    happen, most = FAULTS[fault]
    job = at_half_way(stack)
    done = stack.ended_items(str(job.run))
    happen(stack)
    found, attempts = ended(stack, job)
    assert found.results == undisturbed.results
    assert attempts <= most
    # At most what was in hand: each of two workers has four groups of five items.
    assert found.again <= WORKERS * 4 * 5
    measured(Kill(by="a Ray job", killed=fault, ended=done, lost=0, again=found.again, attempts=attempts))
    last = stack.ledger.jobs.get(job.id).attempts[-1].submission_id
    look_until(lambda: status(stack, last) == "SUCCEEDED")


def status(stack: JobStack, submission_id: str) -> str:
    """What Ray says of a job."""
    with stack.cluster.http() as http:
        return str(http.get(f"/api/jobs/{submission_id}").json()["status"])
