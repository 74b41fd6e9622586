"""Methods of tests: the abilities that a test gives, and the rest asked of nobody."""

from __future__ import annotations

from typing import Any

from counterpose_core.contract.runs import Item
from counterpose_core.types import RunKind
from counterpose_gateway.runs.method import AnyMethod, Method


def never(*arguments: object, **options: object) -> Any:
    """Refuse: the test asks for nothing of the kind."""
    raise AssertionError(arguments)


def method_of(kind: RunKind, **abilities: Any) -> AnyMethod:
    """Return a method of a kind whose fields are the given ones."""
    fields: dict[str, Any] = {
        "needs": (),
        "create": never,
        "item": Item,
        "summary": never,
        "plan": never,
        "process": never,
        "summarize": never,
        "report": never,
        "headline": never,
    }
    return Method(kind=kind, **(fields | abilities))
