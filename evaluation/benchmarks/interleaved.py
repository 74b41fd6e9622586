"""Contestants timed alternately, A/B/A/B, so that other load on the machine affects all of them alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter, process_time

Clock = Callable[[], float]
Work = Callable[[], object]

CLOCKS: Mapping[str, Clock] = {"wall": perf_counter, "processor": process_time}
"""The processor time of one thread is the wall-clock time on an idle machine."""


def interleaved(
    contestants: Mapping[str, Work], repetitions: int, clocks: Mapping[str, Clock] = CLOCKS
) -> dict[str, dict[str, list[float]]]:
    """Run all contestants once a round; return seconds by contestant, clock and round."""
    laps = {name: {clock: list[float]() for clock in clocks} for name in contestants}
    for _ in range(repetitions):
        for name, work in contestants.items():
            started = {clock: read() for clock, read in clocks.items()}
            work()
            for clock, read in clocks.items():
                laps[name][clock].append(read() - started[clock])
    return laps


def ratios(slow: list[float], fast: list[float]) -> list[float]:
    """How many times faster the second is, round by round."""
    return [one / other for one, other in zip(slow, fast, strict=True)]
