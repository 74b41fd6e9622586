"""A run's figures and parameters under the flat names that trackers take."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from counterpose_core.contract.stress_tests import StressTestSummary

INTERVAL = ("estimate", "low", "high", "n")
LONGEST_PARAM = 500
"""Letters of a parameter that MLflow's stores take."""
DEEPEST = 4
_NAMES = re.compile(r"[^\w./ -]")


def figures_of(summary: BaseModel) -> dict[str, float]:
    """Return the figures of a summary, each estimate with its interval and n.

    Of operations, which a summary lists, the loss of each at each level; of severity, the accuracy at each,
    the share that never fails, and the level of the stated loss.
    """
    figures = dict(metrics(summary.model_dump(mode="json", by_alias=True, exclude={"config"})))
    if isinstance(summary, StressTestSummary) and summary.transforms is not None:
        for each in summary.transforms.figures:
            losses = {str(level.level): level.loss.model_dump() for level in each.levels}
            figures |= metrics({"operations": {each.classifier: {each.operation: losses}}})
        severity = summary.transforms.severity
        for figure in () if severity is None else severity.figures:
            of = {str(level.level): level.accuracy.model_dump() for level in figure.levels}
            of |= {"never": figure.never.model_dump(), "loss-level": figure.loss_level.model_dump()}
            figures |= metrics({"severity": {figure.classifier: {figure.operation: of}}})
    return figures


def metrics(figures: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the figures of a summary by a tracker's names, each estimate with its interval and n.

    Lists, such as findings, give their length: their entries are in the report and in summary.json.
    """
    waiting: list[tuple[str, Any, int]] = [("", figures, 0)]
    while waiting:
        path, value, depth = waiting.pop()
        if isinstance(value, bool) or value is None:
            continue
        if isinstance(value, int | float):
            yield path, float(value)
        elif isinstance(value, list):
            yield path, float(len(value))
        elif isinstance(value, dict) and value.keys() >= set(INTERVAL):
            yield from ((name, float(n)) for name, n in _estimate(path, value) if n is not None)
        elif isinstance(value, dict) and depth < DEEPEST:
            below = f"{path}/" if path else ""
            waiting += [(below + named(str(name)), each, depth + 1) for name, each in value.items()]


def _estimate(path: str, value: Mapping[str, Any]) -> Iterator[tuple[str, float | None]]:
    yield path, value["estimate"]
    for part in INTERVAL[1:]:
        yield f"{path}.{part}", value[part]


def params(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what a run depends on by a tracker's names; what is long is cut, the summary has it whole."""
    for name, value in config.items():
        fields = value.items() if isinstance(value, dict) else [("", value)]
        for field, each in fields:
            shown = each if isinstance(each, str) else json.dumps(each, sort_keys=True)
            if each not in (None, [], {}):
                yield named(f"{name}.{field}" if field else name), shown[:LONGEST_PARAM]


def named(name: str) -> str:
    """Return a name in the letters that trackers take."""
    return _NAMES.sub("_", name)[:240]
