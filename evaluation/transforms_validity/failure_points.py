"""The level at which a stated loss is reached: what adaptive runs say of it, and what fresh scenes do."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from counterpose_core.contract.severity import STATED_LOSS, SeverityFigure, SeveritySummary
from counterpose_core.stress_test.severity.curves import loss_level
from counterpose_core.types import Estimate
from evaluation.validity.measures import clustered_share

from .figures import generator
from .planted import Sensitivity, Taught
from .report import FailurePoints, LevelReport

NEAR = 0.5


def asked_of(one: Taught) -> list[Sensitivity]:
    """A classifier's sensitivities of the whole model to operations with more than one level."""
    return [each for each in one.sensitivities if each.scope == "whole" and len(each.tested_levels) > 1]


def level_reports(
    one: Taught, draw: int, told: SeveritySummary, losses: Mapping[str, Mapping[int, Estimate]]
) -> list[LevelReport]:
    """Hold what a run says of each planted operation against its losses on fresh scenes, by level."""
    by_name = {each.operation: each for each in told.figures}
    return [
        _level_report(one.name, draw, by_name[each.operation], losses[each.operation])
        for each in asked_of(one)
    ]


def _level_report(name: str, draw: int, told: SeverityFigure, losses: Mapping[int, Estimate]) -> LevelReport:
    levels = sorted(losses)
    true = loss_level(levels, [losses[level] for level in levels], STATED_LOSS)
    said = told.loss_level
    return LevelReport(
        classifier=name,
        operation=told.operation,
        draw=draw,
        level=said.level,
        low=said.low,
        high=said.high,
        true=true.level,
        in_full=told.in_full,
        classifications=told.classifications,
        of_grid=told.of_grid,
    )


def is_near(one: LevelReport) -> bool:
    """Whether the level that is said lies within half a level of the true one."""
    if one.level is None or one.true is None:
        return one.level == one.true
    return abs(one.level - one.true) <= NEAR


def is_held(one: LevelReport) -> bool:
    """Whether the interval of the level holds the true one, taken as exact."""
    # Beyond the levels is above all of them.
    low, high, true = (math.inf if end is None else end for end in (one.low, one.high, one.true))
    return low <= true <= high


def failure_points(told: Sequence[LevelReport], images: int) -> FailurePoints:
    """Sum up: runs of one sensitivity on several sets of images are no independent trials."""

    def of(hits: Iterable[bool], name: str) -> Estimate:
        keys = (f"{each.classifier} {each.operation}" for each in told)
        return clustered_share(zip(keys, hits, strict=True), generator(f"failure points {name}"))

    return FailurePoints(
        loss=STATED_LOSS,
        images=images,
        near=of(map(is_near, told), "near"),
        held=of(map(is_held, told), "held"),
        asked=sum(each.classifications for each in told) / max(1, sum(each.of_grid for each in told)),
        levels=list(told),
    )
