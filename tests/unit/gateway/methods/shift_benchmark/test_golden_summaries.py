"""Summaries of benchmarks of every kind: those that were made of a document of each item."""

from __future__ import annotations

import json

import pytest

from counterpose_gateway.methods.shift_benchmark.summary import summarize
from fakes.recorded_benchmarks import Benchmark
from fakes.varied_benchmarks import decisions, folder, varied_benchmark
from golden import Golden

# Written once by the code that read a document of each item, before there were columns.
SUMMARIES = "summaries_of_documents.json"


def benchmarks() -> dict[str, Benchmark]:
    return {
        "decided": varied_benchmark(0, ("token", "retrieval", "photographs")),
        "without-real": varied_benchmark(1, ("class-name", "scraped"), real=0),
    }


@pytest.mark.parametrize("name", ["decided", "without-real"])
def test_summaries_are_those_of_documents(name: str, golden: Golden) -> None:
    made = benchmarks()[name]
    told = decisions() if name == "decided" else []
    found = summarize(made.run, made.columns, told, folder=folder())
    document = json.loads(found.model_dump_json(by_alias=True))
    golden.compare(document, golden.read(SUMMARIES)[name], without=("config", "kind", "policy", "failure"))
