"""Conditions as attributes with values, read from the phrases and captions of a run."""

from __future__ import annotations

from collections.abc import Iterable

from counterpose_core.contract.confirmation import Condition
from counterpose_core.contract.findings import Finding
from counterpose_core.contract.runs import Item
from counterpose_miniature.world.grammar import parse

Conditions = frozenset[tuple[str, str]]
"""Two attributes of a scene, each with a value."""


def named(phrases: Iterable[Condition]) -> Conditions:
    """The conditions that phrases name; fewer than two where one names no attribute."""
    return frozenset(pair for each in phrases for pair in list(parse(each.words).items())[:1])


def proven(findings: Iterable[Finding], classifier: str) -> list[Finding]:
    """The conjunctions that are proven of a classifier."""
    return [
        each
        for each in findings
        if each.conjunction and each.state == "breaks" and each.classifier == classifier
    ]


def tested(items: Iterable[Item], classifier: str) -> set[tuple[str, Conditions]]:
    """The class and the conditions of every conjunction that a run tested of a classifier."""
    asked = (
        (item.label, item.instruction)
        for item in items
        if item.instruction is not None and item.instruction.conjunction is not None
    )
    return {
        (label, named(each.conjunction.conditions))
        for label, each in asked
        if each.conjunction is not None and classifier in each.classifiers
    }


def meets(items: Iterable[Item], object_class: str, conditions: Conditions) -> bool:
    """Whether the screen saw an original or a kept edit of a class whose caption names both conditions."""
    for item in items:
        if item.stage > 1 or item.label != object_class or item.result is None or item.state != "done":
            continue
        captions = (item.result.caption, item.result.edited_caption or "")
        if item.kind != "caption" and any(conditions <= parse(each).items() for each in captions):
            return True
    return False
