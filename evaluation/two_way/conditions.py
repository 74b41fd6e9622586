"""Conditions as attributes with values, read from the phrases and captions of a run, and the truth of two."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from counterpose_core.contract.confirmation import Condition
from counterpose_core.contract.findings import Finding
from counterpose_core.contract.runs import Item
from counterpose_core.types import Estimate
from counterpose_miniature.world.grammar import parse
from evaluation.validity.detection import ALARM
from evaluation.validity.measures import UNKNOWN
from evaluation.validity.report import Verdict

from .report import TRUE_TOGETHER

Conditions = frozenset[tuple[str, str]]
"""Two attributes of a scene, each with a value."""


TWO = 2
"""Conditions of a bug; a phrase of a finding may name none."""


@dataclass(frozen=True)
class JointTruth:
    """The fall of p(true class) under two conditions beyond the worse one of them, and under that one."""

    together: Estimate = UNKNOWN
    alone: Estimate = UNKNOWN

    @property
    def is_true(self) -> bool:
        """Whether the two cost enough together, and the worse of them at most half of it alone."""
        together, alone = self.together.estimate or 0.0, self.alone.estimate or 0.0
        return together >= TRUE_TOGETHER and alone <= together / 2

    @property
    def verdict(self) -> Verdict:
        """The verdict on such a claim; undecided where a phrase names no attribute."""
        if self.is_true:
            return "true"
        return "undecided" if self.together.high is None or self.together.high >= ALARM else "false-alarm"


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
