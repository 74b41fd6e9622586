"""What a process counts of its calls to the services: how many, how long they took, and what came of them.

A series is named by words with spaces between them, such as ``calls editor ok``, which is how the ledger
keeps it; `http.stage_metrics` makes Prometheus' series of them.
"""

from __future__ import annotations

import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from counterpose_core.errors import CounterposeError

CALLS, SECONDS, BUCKET = "calls", "seconds", "bucket"
"""The first words of series: calls by service and outcome; their seconds, and their number by duration."""
OK = "ok"
"""The outcome of a call that was answered; any other one is the code of an error."""
BUCKETS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
"""Upper bounds in seconds; a call that took longer than all of them is in none.

A caption takes a tenth of a second and a call to the editor half a minute.
"""


class CallCounts:
    """Counts calls; ``clock`` returns monotonic seconds. One event loop uses it, and no thread beside it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._new = defaultdict[str, float](float)
        self.under_way = Counter[str]()
        """Calls under way, by service."""

    @contextmanager
    def call(self, service: str) -> Iterator[None]:
        """Count a call, which the block makes; one that is cancelled counts as ``cancelled``."""
        began, outcome = self._clock(), "cancelled"
        self.under_way[service] += 1
        try:
            yield
            outcome = OK
        except CounterposeError as error:
            outcome = error.code
            raise
        finally:
            self.under_way[service] -= 1
            self._count(service, outcome, self._clock() - began)

    def taken(self) -> dict[str, float]:
        """Return what was counted since the last time, and begin anew."""
        counts = dict(self._new)
        self._new.clear()
        return counts

    def put_back(self, counts: Mapping[str, float]) -> None:
        """Take counts again that could not be told."""
        for series, amount in counts.items():
            self._new[series] += amount

    def _count(self, service: str, outcome: str, seconds: float) -> None:
        self._new[f"{CALLS} {service} {outcome}"] += 1
        place = bisect.bisect_left(BUCKETS, seconds)
        if place < len(BUCKETS):
            self._new[f"{BUCKET} {service} {BUCKETS[place]:g}"] += 1
        self._new[f"{SECONDS} {service}"] += seconds
