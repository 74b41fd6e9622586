"""The figures of a run that a model's card can hold, each with its interval and n."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from counterpose_core.contract.base import ResponseBody
from counterpose_core.contract.shift_benchmark_summary import ShiftBenchmarkSummary
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_core.errors import InvalidRequest
from counterpose_core.text.near_names import did_you_mean
from counterpose_core.types import Estimate

ACCURACY, DROP = "accuracy", "accuracy_drop"


class Figure(NamedTuple):
    """One figure of one classifier with its 95 % interval; ``metric`` is the Hub's name of its kind."""

    name: str
    metric: str
    estimate: float
    low: float
    high: float
    n: int


def figures_of(summary: ResponseBody, classifier: str | None) -> tuple[str, list[Figure]]:
    """Return the classifier, and its figures that have a value.

    Args:
        summary: of a stress test or a shift benchmark.
        classifier: default: the run's only one.

    Raises:
        InvalidRequest: a run of another kind, no such classifier, or none of its figures has a value.
    """
    match summary:
        case StressTestSummary():
            chosen = _chosen(list(summary.models), classifier)
            measured = list(_of_stress_test(summary, chosen))
        case ShiftBenchmarkSummary():
            chosen = _chosen(list(summary.models), classifier)
            measured = list(_of_benchmark(summary, chosen))
        case _:
            raise InvalidRequest(
                "a model's card takes the figures of a stress test or a shift benchmark, not those of a "
                f"{type(summary).__name__.removesuffix('Summary')}"
            )
    figures = [
        Figure(name, metric, value.estimate, value.low or 0.0, value.high or 0.0, value.n)
        for name, metric, value in measured
        if value.estimate is not None
    ]
    if not figures:
        raise InvalidRequest(f"the run has no figure of {chosen!r}: too few images were kept")
    return chosen, figures


def _chosen(known: list[str], classifier: str | None) -> str:
    if classifier in known:
        return str(classifier)
    if classifier is None and len(known) == 1:
        return known[0]
    named = ", ".join(map(repr, known))
    if classifier is None:
        raise InvalidRequest(f"the run has {len(known)} classifiers; name the repository's: {named}")
    meant = did_you_mean(classifier, known)
    raise InvalidRequest(f"the run has no classifier {classifier!r}{meant}; there are {named}")


def _of_stress_test(summary: StressTestSummary, classifier: str) -> Iterator[tuple[str, str, Estimate]]:
    model = summary.models[classifier]
    yield ("Accuracy on the source images", ACCURACY, model.original.rate)
    yield ("Accuracy on their counterfactuals", ACCURACY, model.counterfactual.rate)
    yield ("Drop of accuracy, paired by source image", DROP, model.drop)
    if model.beyond_placebo is not None:
        yield ("Drop of accuracy beyond the placebo edit", DROP, model.beyond_placebo)


def _of_benchmark(summary: ShiftBenchmarkSummary, classifier: str) -> Iterator[tuple[str, str, Estimate]]:
    for source, images in summary.image_sources.items():
        for shift, found in images.shifts.items():
            model = found.effect.models.get(classifier) if found.effect is not None else None
            if model is not None:
                yield (f"Accuracy without {shift} ({source})", ACCURACY, model.base)
                yield (f"Accuracy under {shift} ({source})", ACCURACY, model.shifted)
                yield (f"Drop of accuracy under {shift} ({source})", DROP, model.drop)
