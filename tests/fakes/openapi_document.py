"""The gateway's OpenAPI document, described once for all tests that read it: it takes a second."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

from counterpose_gateway.app import bare_app

_OWN = {
    "findings": "stress-test", "generate": "dataset-interface", "inspections": "shift-benchmark",
    "shift-thresholds": "shift-benchmark", "descriptions": "bug-hunt", "register": "adversarial-dataset",
}  # fmt: skip


def kind_of(path: str) -> str | None:
    """Return the kind of the runs that alone have an operation; None where all have it."""
    return _OWN.get(path.removeprefix("/v1/runs/{run_id}/").partition("/")[0])


def parameters_of(operation: dict[str, Any]) -> list[dict[str, Any]]:
    """Return an operation's parameters, those that it shares, too."""
    shared = document()["components"]["parameters"]
    return [
        copy.deepcopy(shared[each["$ref"].rpartition("/")[2]] if "$ref" in each else each)
        for each in operation.get("parameters", ())
    ]


def codes_of(operation: dict[str, Any]) -> dict[str, list[str]]:
    """Return the codes of an operation's problems: its own, and those of each answer that it shares."""
    shared = document()["components"]["responses"]
    answers = {status: answer.get("$ref", "") for status, answer in operation["responses"].items()}
    return {"own": operation["x-problem-codes"]} | {
        status: shared[ref.rpartition("/")[2]]["x-problem-codes"]
        for status, ref in answers.items()
        if status.endswith("XX")
    }


@cache
def document(*, with_metrics: bool = True) -> dict[str, Any]:
    """Return what a gateway says of itself; not to be changed."""
    return bare_app(with_metrics=with_metrics).openapi()
