"""How many replicas a service has: by the work that waits, in items or network evaluations, not by requests.

One request may be a caption or sixteen edits of 300 network evaluations each, so a number of requests says
little. Each replica reports its load: the work of the calls that it holds, over the work that keeps it busy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

LOAD = "load"
"""The name under which a replica reports its load."""
BATCHES = 2
"""Full batches that a busy replica holds: one runs, the next one fills."""


class Scaling(Protocol):
    """The part of Ray Serve's ``AutoscalingContext`` that the policy reads."""

    @property
    def aggregated_metrics(self) -> Mapping[str, Mapping[Any, float]] | None: ...
    @property
    def total_queued_requests(self) -> float: ...
    @property
    def total_running_requests(self) -> float: ...
    @property
    def target_num_replicas(self) -> int: ...


def replicas_for_load(context: Scaling) -> tuple[int, dict[str, Any]]:
    """Return the number of replicas that the work of all calls keeps busy, and no state of its own.

    Requests that wait at the proxy, which no replica has read, count as the average of those that run. Serve
    applies the bounds and delays of the configuration.
    """
    reported = (context.aggregated_metrics or {}).get(LOAD)
    if not reported:
        # A replica that starts has not reported yet; to do nothing is to wait for it.
        return context.target_num_replicas, {}
    load = sum(reported.values())
    if context.total_running_requests > 0:
        load += context.total_queued_requests * load / context.total_running_requests
    return math.ceil(load), {}
