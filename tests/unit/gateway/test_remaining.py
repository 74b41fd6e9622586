"""For how long a run goes on at its present speed."""

from __future__ import annotations

from counterpose_core.contract.runs import RequestCounts
from counterpose_gateway.services.calls import RemainingTimes


class Runs:
    """One run of a hundred items, whose time and counts a test sets."""

    now, ended, reads = 0.0, 0, 0

    def __call__(self) -> float:
        return self.now

    def counts(self, run_id: str) -> RequestCounts | None:
        self.reads += 1
        if run_id != "run":
            return None
        return RequestCounts(
            total=100, pending=100 - self.ended, done=self.ended, filtered=0, failed=0, cancelled=0
        )


def test_nothing_is_known_until_items_have_ended() -> None:
    runs = Runs()
    times = RemainingTimes(runs.counts, runs)
    assert times.of("run") is None
    runs.now = 10.0
    assert times.of("run") is None
    assert times.of("gone") is None


def test_the_rest_takes_as_long_as_the_last_items_say() -> None:
    runs = Runs()
    times = RemainingTimes(runs.counts, runs)
    times.of("run")
    runs.now, runs.ended = 20.0, 10
    assert times.of("run") == 180.0
    # Twice as fast since: what was before the last two minutes no longer counts.
    for _ in range(8):
        runs.now, runs.ended = runs.now + 20.0, runs.ended + 10
        times.of("run")
    assert times.of("run") == 20.0
    assert runs.reads == 10


def test_the_counts_are_read_every_five_seconds_at_most() -> None:
    runs = Runs()
    times = RemainingTimes(runs.counts, runs)
    for second in range(11):
        runs.now = float(second)
        times.of("run")
    assert runs.reads == 3
