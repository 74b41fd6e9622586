"""Judges runs of operations by true losses: what was found, what is false, which intervals hold the truth."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from counterpose_core.contract.transforms import ClassFinding, OperationFigure, TransformSummary
from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.types import Estimate
from evaluation.validity.measures import clustered_share, share
from evaluation.validity.report import Aim

from .images import Cell
from .planted import FEW, MANY, Sensitivity
from .report import (
    FALSE_BELOW,
    PLANTED_FROM,
    FailurePoints,
    FindingReport,
    PlantedReport,
    RunReport,
    TransformsFigures,
)

RECALL_WHOLE, RECALL_CLASS, PRECISION, COVERAGE, NEAR = 0.95, 0.9, 0.95, 0.93, 0.9
Finding = OperationFigure | ClassFinding


def generator(figure: str) -> np.random.Generator:
    """Return the figure's own generator, so that a new figure changes none of the others."""
    return np.random.default_rng(int(hashlib.sha256(f"operations {figure}".encode()).hexdigest(), 16))


def findings_of(told: TransformSummary) -> list[Finding]:
    """The losses that a run shows, of all classes together and of single ones."""
    return [each for each in told.findings if each.state == "breaks"]


def level_of(one: Finding) -> int:
    """The level that a finding's words are about."""
    return one.headline.level


def about(one: Sensitivity, told: TransformSummary) -> Finding | None:
    """The finding of a run that says a sensitivity: of its operation, and of its class if it has one."""
    wanted = one.operation, one.object_class or ""
    return next((each for each in findings_of(told) if (each.operation, each.object_class) == wanted), None)


def planted_report(
    classifier: str, one: Sensitivity, by_level: Mapping[int, Estimate], runs: Mapping[int, TransformSummary]
) -> PlantedReport:
    """Hold a sensitivity, with its true loss at each level, against runs by their number of images."""
    true = max((by_level[level] for level in one.tested_levels), key=lambda each: each.estimate or 0.0)
    said = {size: about(one, told) for size, told in runs.items()}
    return PlantedReport(
        classifier=classifier,
        operation=one.operation,
        from_level=one.level,
        scope=one.scope,
        object_class=one.object_class,
        circumstance=one.circumstance,
        by_level=dict(by_level),
        true=true,
        planted=(true.estimate or 0.0) >= PLANTED_FROM[one.scope],
        found={size: each is not None for size, each in said.items()},
        said_from={size: None if each is None else level_of(each) for size, each in said.items()},
    )


def finding_report(run: tuple[str, bool, int], one: Finding, true: Estimate) -> FindingReport:
    """Judge a finding of a run (classifier, whether it is a control, images) by what fresh scenes lose."""
    classifier, control, size = run
    return FindingReport(
        classifier=classifier,
        control=control,
        size=size,
        operation=one.operation,
        level=level_of(one),
        object_class=one.object_class,
        loss=one.headline.loss,
        true=true,
        is_true=(true.estimate or 0.0) >= FALSE_BELOW,
    )


def holds(printed: Estimate, true: Estimate) -> bool:
    """Whether an interval holds a truth that is measured, too.

    The interval of their difference is made of both (Zou and Donner 2008): a truth on few scenes would
    lie outside intervals that hold the exact one.
    """
    middle, low, high = _ends(printed)
    exact, least, most = _ends(true)
    below, above = math.hypot(middle - low, most - exact), math.hypot(high - middle, exact - least)
    return middle - exact - below <= 0.0 <= middle - exact + above


def holds_plainly(printed: Estimate, true: Estimate) -> bool:
    """Whether an interval holds the measured truth as if that were exact."""
    _, low, high = _ends(printed)
    return low <= _ends(true)[0] <= high


def _ends(one: Estimate) -> tuple[float, float, float]:
    """An estimate of any images, and its interval."""
    found = one.estimate, one.low, one.high
    middle, low, high = (0.0 if value is None else value for value in found)
    return middle, low, high


def printed_intervals(told: TransformSummary) -> Iterator[tuple[Cell, Estimate]]:
    """Every interval of a loss that a run prints of all classes together."""
    for each in told.figures:
        yield from (((each.operation, level.level), level.loss) for level in each.levels)


def figures_of(
    size: int, planted: Sequence[PlantedReport], findings: Iterable[FindingReport], runs: Iterable[RunReport]
) -> TransformsFigures:
    """Sum up the runs of one number of images; only sensitivities of their classifiers count."""
    runs = [run for run in runs if run.size == size]
    findings = [each for each in findings if each.size == size]
    controls = [run for run in runs if run.control]
    in_scope = {
        scope: [
            each.found[size]
            for each in planted
            if each.scope == scope and each.planted and size in each.found
        ]
        for scope in PLANTED_FROM
    }
    on_controls = [each for each in findings if each.control and not each.is_true]
    groundless = {each.classifier for each in findings if not _loses(each)}
    tests = sum(run.figures + run.class_tests for run in controls)
    return TransformsFigures(
        whole=share(in_scope["whole"]),
        of_class=share(in_scope["class"]),
        circumstance=share(in_scope["circumstance"]),
        precision=_true(findings, f"{size}"),
        precision_whole=_true([each for each in findings if not each.object_class], f"{size} whole"),
        precision_of_class=_true([each for each in findings if each.object_class], f"{size} class"),
        any_loss=clustered_share(
            ((each.classifier, _loses(each)) for each in findings), generator(f"any loss {size}")
        ),
        false_controls=share([run.false > 0 for run in controls]),
        groundless_controls=share([run.classifier in groundless for run in controls]),
        false_tests=proportion(len(on_controls), tests),
        coverage=_covered(((run.image_set, run.covered, run.intervals) for run in runs), f"{size}"),
        coverage_plain=_covered(
            ((run.image_set, run.covered_plainly, run.intervals) for run in runs), f"{size} plain"
        ),
    )


def _loses(one: FindingReport) -> bool:
    """Whether fresh scenes lose anything by a finding's words, as the interval of this loss shows."""
    return (one.true.low or 0.0) > 0.0


def _true(findings: Iterable[FindingReport], name: str) -> Estimate:
    pairs = ((each.classifier, each.is_true) for each in findings)
    return clustered_share(pairs, generator(f"precision {name}"))


def _covered(runs: Iterable[tuple[int, int, int]], name: str) -> Estimate:
    pairs = ((str(shared), at < held) for shared, held, intervals in runs for at in range(intervals))
    return clustered_share(pairs, generator(f"coverage {name}"))


def aims_of(figures: Mapping[int, TransformsFigures], levels: FailurePoints | None = None) -> list[Aim]:
    """The aims, each by the number of images that it is stated for."""
    found = list[Aim]()
    if FEW in figures:
        name = f"whole-model sensitivities found at {FEW} images"
        found.append(_aim(name, figures[FEW].whole, RECALL_WHOLE))
    if MANY in figures:
        name = f"sensitivities of one class found at {MANY} images"
        found.append(_aim(name, figures[MANY].of_class, RECALL_CLASS))
    for size, each in figures.items():
        found += [
            _aim(f"findings that are true at {size} images", each.precision, PRECISION),
            _aim(f"intervals of losses that hold the truth at {size} images", each.coverage, COVERAGE),
            # Above the level only if the interval says so: one alarm of eight controls may be chance.
            Aim(
                name=f"controls with a false finding at {size} images",
                aim="interval not above 0.05",
                reached=each.false_controls,
                met=None if each.false_controls.low is None else each.false_controls.low <= FALSE_BELOW,
            ),
        ]
    if levels is not None:
        what = f"of a loss of {levels.loss:g} at {levels.images} images, adaptively"
        found += [
            _aim(f"levels {what}, within half a level of the truth", levels.near, NEAR),
            _aim(f"intervals of levels {what}, that hold the truth", levels.held, COVERAGE),
        ]
    return found


def _aim(name: str, reached: Estimate, least: float) -> Aim:
    met = None if reached.estimate is None else reached.estimate >= least
    return Aim(name=name, aim=f">= {least:g}", reached=reached, met=met)
