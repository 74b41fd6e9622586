"""How many replicas a service has: by the work that waits, in items or network evaluations, not by requests.

One request may be a caption or sixteen edits of 300 network evaluations each, so a number of requests says
little. Each replica reports its load: the work of the calls that it holds, over the work that keeps it busy.

What waits in the ledger is in no call. Its callers tell for how long their runs go on, and each replica
reports that in starts of a replica: work that ends before a replica has started adds none, and work that goes
on for many starts adds replicas although each call is small, and takes none away in a gap between calls.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

LOAD = "load"
"""The name under which a replica reports its load."""
BUSY = "busy"
"""The share of the time in which a replica has a call."""
LASTS = "lasts"
"""How many starts of a replica fit into the time for which the callers' runs go on."""
WORTH = 2.0
"""A new replica then works for as long as it took to start."""
ALWAYS = 0.8
"""A replica that has a call for so much of the time is what the runs wait for."""
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
    return _with_forecast(math.ceil(load), len(reported), context), {}


def _with_forecast(wanted: int, running: int, context: Scaling) -> int:
    """Correct the number by the runs' remaining time, if the callers have told it."""
    metrics, target = context.aggregated_metrics or {}, context.target_num_replicas
    told = metrics.get(LASTS)
    if not told:
        return wanted
    starts, busy = max(told.values()), metrics.get(BUSY, {})
    if starts < WORTH:
        wanted = min(wanted, max(running, target))
    elif busy and sum(busy.values()) / len(busy) >= ALWAYS:
        # With so many the rest takes about as long as two starts, if the runs wait for this service alone.
        wanted = max(wanted, math.floor(running * starts / WORTH))
    return max(wanted, target) if starts >= 1.0 else wanted
