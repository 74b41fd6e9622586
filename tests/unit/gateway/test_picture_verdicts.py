"""One picture's verdict is the one that the summary's own counts were made of."""

from __future__ import annotations

from collections import Counter

import pytest

from fakes.reported_benchmarks import SOURCES, reported_benchmark, reported_summary
from faultline_core.contract.shift_benchmark_summary import PictureCounts, ShiftBenchmarkSummary
from faultline_core.contract.shift_thresholds import ThresholdInForce
from faultline_core.shifts import BASE
from faultline_gateway.workflows.benchmark_summary import summarize_benchmark
from faultline_gateway.workflows.picture_verdicts import verdict_of


def counted(summary: ShiftBenchmarkSummary, source: str, condition: str) -> Counter[str]:
    """Verdicts on a condition's pictures by one source, picture by picture."""
    found: Counter[str] = Counter()
    for item in reported_benchmark().items:
        result = item.result
        if result is not None and (result.source, result.shift) == (source, condition):
            found[verdict_of(result, item.label, summary)] += 1
    return found


def told(counts: PictureCounts) -> Counter[str]:
    """The same as the summary counts them."""
    return +Counter(
        {
            "kept": counts.kept,
            "object": counts.without_object,
            "shift": counts.without_shift,
            "object and shift": counts.without_both,
        }
    )


@pytest.mark.parametrize("percentile", [5.0, 60.0])
@pytest.mark.parametrize("source", SOURCES)
def test_verdicts_add_up_to_the_summary_s_counts(source: str, percentile: float) -> None:
    made = reported_benchmark()
    summary = summarize_benchmark(made.run, made.items, object_percentile=percentile)
    of_source = summary.sources[source]
    for condition, found in {BASE: of_source.base, **of_source.shifts}.items():
        assert counted(summary, source, condition) == told(found.counts), condition


def test_where_nobody_found_a_percentile_good_enough_nothing_passes() -> None:
    summary = reported_summary()
    source = summary.sources["token"]
    shift = source.shifts["in the snow"].model_copy(
        update={"threshold": ThresholdInForce(set_by="person", author="Ada", nothing_passes=True)}
    )
    strict = source.model_copy(update={"shifts": source.shifts | {"in the snow": shift}})
    judged = summary.model_copy(update={"sources": summary.sources | {"token": strict}})
    assert "kept" not in counted(judged, "token", "in the snow")


def test_real_pictures_are_not_judged_by_what_they_set() -> None:
    summary = reported_summary()
    real = [item for item in reported_benchmark().items if item.result and item.result.source == "real"]
    assert {verdict_of(item.result, item.label, summary) for item in real if item.result} == {"kept"}
