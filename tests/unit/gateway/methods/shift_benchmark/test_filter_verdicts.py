"""The filter verdict of an image agrees with the counts of the summary."""

from __future__ import annotations

from collections import Counter

import pytest

from counterpose_core.contract.shift_benchmark_summary import ImageCounts, ShiftBenchmarkSummary
from counterpose_core.contract.shift_thresholds import ThresholdInForce
from counterpose_core.shift_benchmark.shifts import BASE
from counterpose_gateway.methods.shift_benchmark.summary import summarize
from counterpose_gateway.methods.shift_benchmark.threshold_review import filter_verdict
from fakes.reported_benchmarks import SOURCES, reported_benchmark, reported_summary


def counted(summary: ShiftBenchmarkSummary, image_source: str, condition: str) -> Counter[str]:
    """Verdicts on a condition's images by one image source, image by image."""
    found: Counter[str] = Counter()
    for item in reported_benchmark().items:
        result = item.result
        if result is not None and (result.image_source, result.shift) == (image_source, condition):
            found[filter_verdict(result, item.label, summary)] += 1
    return found


def told(counts: ImageCounts) -> Counter[str]:
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
@pytest.mark.parametrize("image_source", SOURCES)
def test_filter_verdicts_add_up_to_the_summary_counts(image_source: str, percentile: float) -> None:
    made = reported_benchmark()
    summary = summarize(made.run, made.columns, object_percentile=percentile)
    of_source = summary.image_sources[image_source]
    for condition, found in {BASE: of_source.base, **of_source.shifts}.items():
        assert counted(summary, image_source, condition) == told(found.counts), condition


def test_all_images_are_dropped_if_no_percentile_was_accepted() -> None:
    summary = reported_summary()
    image_source = summary.image_sources["token"]
    shift = image_source.shifts["in the snow"].model_copy(
        update={"threshold": ThresholdInForce(set_by="person", author="Ada", nothing_passes=True)}
    )
    strict = image_source.model_copy(update={"shifts": image_source.shifts | {"in the snow": shift}})
    judged = summary.model_copy(update={"image_sources": summary.image_sources | {"token": strict}})
    assert "kept" not in counted(judged, "token", "in the snow")


def test_real_images_are_always_kept() -> None:
    summary = reported_summary()
    real = [item for item in reported_benchmark().items if item.result and item.result.image_source == "real"]
    assert {filter_verdict(item.result, item.label, summary) for item in real if item.result} == {"kept"}
