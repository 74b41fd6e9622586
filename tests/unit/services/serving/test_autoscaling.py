"""How many replicas a service has, by the work that its calls are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from counterpose_services.serving.autoscaling import BUSY, LASTS, LOAD, replicas_for_load


@dataclass
class Context:
    """What Ray Serve tells a policy."""

    loads: tuple[float, ...] = ()
    total_queued_requests: float = 0.0
    total_running_requests: float = 0.0
    target_num_replicas: int = 2
    aggregated_metrics: Mapping[str, Mapping[str, float]] = field(init=False)

    def __post_init__(self) -> None:
        self.aggregated_metrics = {LOAD: {str(at): load for at, load in enumerate(self.loads)}}


@pytest.mark.parametrize(
    ("loads", "replicas"), [((0.0,), 0), ((0.2,), 1), ((1.0, 1.0), 2), ((2.4,), 3), ((0.3, 0.3, 0.3), 1)]
)
def test_there_are_as_many_replicas_as_the_work_keeps_busy(loads: tuple[float, ...], replicas: int) -> None:
    assert replicas_for_load(Context(loads)) == (replicas, {})


def test_requests_that_no_replica_has_read_count_as_the_average_of_those_that_run() -> None:
    context = Context((1.5, 0.5), total_running_requests=4, total_queued_requests=6)
    assert replicas_for_load(context) == (5, {})


def test_nothing_changes_before_a_replica_has_reported() -> None:
    assert replicas_for_load(Context(target_num_replicas=3)) == (3, {})


def forecast(starts: float, *busy: float, loads: tuple[float, ...], target: int) -> Context:
    """What Serve tells if the replicas know that their callers' runs go on for so many starts."""
    context = Context(loads, target_num_replicas=target)
    told = {str(at): share for at, share in enumerate(busy)}
    context.aggregated_metrics = {**context.aggregated_metrics, LASTS: {"0": starts}, BUSY: told}
    return context


@pytest.mark.parametrize(
    ("starts", "busy", "loads", "target", "replicas"),
    [
        # Small calls one after another: the load is small, and yet the runs wait for this service.
        (6.0, (1.0,), (0.3,), 1, 3),
        (6.0, (1.0, 0.9), (0.3, 0.3), 2, 6),
        # They wait for another one.
        (6.0, (0.4,), (0.3,), 1, 1),
        # The rest ends before a new replica would have worked for as long as it took to start.
        (1.9, (1.0,), (2.6,), 1, 1),
        (2.0, (1.0,), (2.6,), 1, 3),
        # A gap between calls, and the end.
        (1.5, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 3, 3),
        (0.5, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 3, 0),
    ],
)
def test_the_runs_remaining_time_says_whether_a_replica_is_worth_its_start(
    starts: float, busy: tuple[float, ...], loads: tuple[float, ...], target: int, replicas: int
) -> None:
    assert replicas_for_load(forecast(starts, *busy, loads=loads, target=target)) == (replicas, {})
