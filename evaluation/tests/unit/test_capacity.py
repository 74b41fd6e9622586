"""Which size of calls is enough, and what it gains."""

from __future__ import annotations

from evaluation.benchmarks.report import Machine
from evaluation.capacity.measure import sizes
from evaluation.capacity.report import CapacityReport, Engine, Rate
from evaluation.evidence.capacity import finding

MACHINE = Machine(
    processor="Some CPU", cores=2, threads=1, device=None, python="3.11", torch="2.13", diffusers="0.42"
)


def engine(*seconds: float, batch: int = 8) -> Engine:
    """Sixteen items in calls of 1, 2, 4 and more, each taking ``seconds`` in the middle of three rounds."""
    rates = tuple(
        Rate(items=2**power, work=16, seconds=(middle / 2, middle, middle * 3))
        for power, middle in enumerate(seconds)
    )
    return Engine(service="scorer", unit="item", batch=batch, load_seconds=1, rates=rates)


def test_a_call_is_full_within_a_tenth_of_the_best_median_rate() -> None:
    assert engine(8, 4.0, 2.1, 2).enough == 4
    assert engine(8, 4.0, 2.3, 2).enough == 8
    assert engine(8, 4.0, 2.1, 2).gain == 8 / 2.1


def told(batch: int) -> str:
    engines = engine(8, 4, 2, batch=batch), engine(8, 2)
    return finding(CapacityReport(machine=MACHINE, suite="s", engines=engines))


def test_the_finding_names_a_batch_that_is_too_small() -> None:
    assert told(4).endswith("4.0 times (scorer) as much a second as with single items.")
    assert told(2).endswith("; the suite's batch is smaller for scorer.")


def test_sizes_double_up_to_the_largest_call() -> None:
    assert list(sizes(16)) == [1, 2, 4, 8, 16]
