"""Documents on record, whose fields have other names today: kept results of runs are read, not made again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TODAY: Mapping[str, str] = {"self_replace": "strength", "self_replace_tried": "strengths_tried"}
"""Former name of a field of a result → its name today. A preset's `self_replace` has its name still."""

_HOLD_RESULTS = ("result", "sweep")


def renamed(document: Any) -> Any:
    """Return an item or its result, as read from a file, with today's names of fields."""
    if isinstance(document, list):
        return [renamed(each) for each in document]
    if not isinstance(document, dict):
        return document
    return {
        TODAY.get(name, name): renamed(value) if name in _HOLD_RESULTS else value
        for name, value in document.items()
    }
