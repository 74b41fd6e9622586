"""Summaries of benchmarks of every kind: those that were made of a document of each item."""

from __future__ import annotations

import json
from typing import Any

import pytest

from counterpose_core.contract.shift_thresholds import ShiftThresholdDecision
from counterpose_core.statistics import bootstrap_result
from counterpose_core.statistics.bootstrap import Floats, bca_ends
from counterpose_gateway.methods.shift_benchmark.summary import summarize
from fakes.recorded_benchmarks import Benchmark
from fakes.varied_benchmarks import decisions, folder, varied_benchmark
from golden import Golden

# Written once by the code that read a document of each item, before there were columns.
SUMMARIES = "summaries_of_documents.json"
ROUNDING = 1e-6
"""More than a draw's sum of 32 bits is off by, and less than two draws of different images are apart."""


def benchmarks() -> dict[str, Benchmark]:
    return {
        "decided": varied_benchmark(0, ("token", "retrieval", "photographs")),
        "without-real": varied_benchmark(1, ("class-name", "scraped"), real=0),
    }


def summary(made: Benchmark, decided: list[ShiftThresholdDecision]) -> Any:
    return json.loads(
        summarize(made.run, made.columns, decided, folder=folder()).model_dump_json(by_alias=True)
    )


def with_ties(monkeypatch: pytest.MonkeyPatch, moved: float) -> None:
    """Count draws that equal the estimate up to rounding on one side of it."""

    def ends(estimate: float, draws: Floats, *, skew: float, tails: Floats) -> tuple[float, float]:
        return bca_ends(estimate + moved, draws, skew=skew, tails=tails)

    monkeypatch.setattr(bootstrap_result, "bca_ends", ends)


def nearest(known: Any, one: Any, other: Any) -> Any:
    """The document whose floats are the nearest to those known between two documents'."""
    if isinstance(one, dict) and isinstance(known, dict):
        return one | {
            name: nearest(known[name], one[name], other[name]) for name in one.keys() & known.keys()
        }
    if isinstance(one, list) and isinstance(known, list):
        return [nearest(*each) for each in zip(known, one, other, strict=True)]
    if isinstance(one, float) and isinstance(known, float):
        return sorted((known, one, other))[1]
    return one


@pytest.mark.parametrize("name", ["decided", "without-real"])
def test_summaries_are_those_of_documents(name: str, golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    made, known = benchmarks()[name], golden.read(SUMMARIES)[name]
    decided = decisions() if name == "decided" else []
    found = summary(made, decided)
    # Rounding, which depends on the processor, puts draws that equal the estimate on one side of it. That
    # moves the ends of few images' intervals: they lie between those with all such draws on either side.
    with_ties(monkeypatch, ROUNDING)
    below = summary(made, decided)
    with_ties(monkeypatch, -ROUNDING)
    above = summary(made, decided)
    for document in (found, known):
        golden.compare(nearest(document, below, above), document, without=("config", "policy"))
