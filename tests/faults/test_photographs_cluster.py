"""The suite for photographs at cluster scale: shared runs, replicas by pending work, jobs that are killed."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from fakes.photographs_cluster import PhotographsCluster, answers, photographs_cluster, rate, report
from fakes.process_trees import kill
from fakes.processes import look_until

IMAGES = 120
JOB_IMAGES = int(os.environ.get("JOB_IMAGES", "300"))
"""Photographs of the job that is killed half-way, each with 20 operations; 10,000 take a quarter of an hour
on two cores."""
MOST = 3
PATIENCE_SECONDS = 300.0
WORK_SECONDS = 180.0
"""Work of many starts of a replica, by this machine's own speed: less adds none."""
Answers = list[tuple[object, ...]]


@dataclass(frozen=True)
class RunAlone:
    """What one worker and one replica made of the images, and in what time."""

    answers: Answers
    seconds: float


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PhotographsCluster]:
    """One cluster of two nodes for all tests."""
    with photographs_cluster(tmp_path_factory.mktemp("photographs") / "state") as running:
        running.upload("small", IMAGES, side=192)
        yield running


@pytest.fixture(scope="module")
def alone(stack: PhotographsCluster) -> RunAlone:
    """A run of all images."""
    began = time.monotonic()
    items, _ = stack.ended(stack.start_run("small"), PATIENCE_SECONDS)
    run = RunAlone(answers(items), time.monotonic() - began)
    assert len(run.answers) == 22 * IMAGES
    return run


@pytest.mark.timeout(900)
def test_three_workers_share_a_run_and_answer_as_one(stack: PhotographsCluster, alone: RunAlone) -> None:
    with stack.more_workers(2):
        found, _ = stack.ended(stack.start_run("small"), PATIENCE_SECONDS)
    assert answers(found) == alone.answers


@pytest.mark.timeout(2400)
def test_replicas_come_with_work_and_go_without(stack: PhotographsCluster, alone: RunAlone) -> None:
    stack.deploy(0, MOST)
    assert stack.replicas() == []
    with stack.more_workers(2):
        runs = [stack.start_run("small") for _ in range(math.ceil(WORK_SECONDS / alone.seconds))]
        look_until(lambda: len(stack.replicas("RUNNING")) == MOST, PATIENCE_SECONDS)
        nodes = set(stack.cluster.actors("ServeReplica:classifiers").values())
        ended = [answers(stack.ended(run, PATIENCE_SECONDS * len(runs))[0]) for run in runs]
        assert [each == alone.answers for each in ended] == [True] * len(runs)
    look_until(lambda: stack.replicas() == [], PATIENCE_SECONDS)
    assert len(nodes) > 1
    stack.deploy(1, 1)


@pytest.mark.timeout(900)
def test_two_replicas_answer_no_slower_than_one(stack: PhotographsCluster) -> None:
    rates: dict[int, list[float]] = {1: [], 2: []}
    with stack.more_workers(1):
        for replicas in (1, 2, 2, 1):
            stack.deploy(replicas, replicas)
            rates[replicas].append(rate(stack, "small", IMAGES, PATIENCE_SECONDS))
    stack.deploy(1, 1)
    report("replicas of classifiers", one=rates[1], two=rates[2])
    # As many processors as this machine has decide how much faster: none of the work may be done twice.
    assert sum(rates[2]) > 0.8 * sum(rates[1])


@pytest.mark.timeout(7200)
def test_a_job_that_is_killed_half_way_does_each_photograph_once(stack: PhotographsCluster) -> None:
    stack.upload("large", JOB_IMAGES, side=96)
    began = time.monotonic()
    job = stack.start_job("large", workers=2)
    run = str(job.run)
    look_until(lambda: stack.ended_items(run) >= JOB_IMAGES // 2, PATIENCE_SECONDS + JOB_IMAGES / 2)
    assert stack.ended_items(run) < JOB_IMAGES, "it ended before anything was killed"
    killed = stack.job_programs()
    for pid in killed:
        kill(pid)
    ended = stack.ended_job(job, PATIENCE_SECONDS + JOB_IMAGES)
    assert ended.state == "completed", ended
    items, again = stack.ended(run, PATIENCE_SECONDS)
    seconds = time.monotonic() - began
    report("job of photographs", items=len(items), killed=len(killed), again=again, seconds=seconds)
    assert len(killed) >= 2
    assert len(answers(items)) == 22 * JOB_IMAGES
    assert len({item.item_group for item in items}) == JOB_IMAGES
