"""The gateway's OpenAPI document, described once for all tests that read it: it takes a second."""

from __future__ import annotations

from functools import cache
from typing import Any

from counterpose_gateway.app import bare_app


def codes_of(operation: dict[str, Any]) -> dict[str, list[str]]:
    """Return the codes of an operation's problems: its own, and those of each answer that it shares."""
    shared = document()["components"]["responses"]
    answers = {status: answer.get("$ref", "") for status, answer in operation["responses"].items()}
    return {"own": operation["x-problem-codes"]} | {
        status: shared[ref.rpartition("/")[2]]["x-problem-codes"] for status, ref in answers.items() if ref
    }


@cache
def document(*, with_metrics: bool = True) -> dict[str, Any]:
    """Return what a gateway says of itself; not to be changed."""
    return bare_app(with_metrics=with_metrics).openapi()
