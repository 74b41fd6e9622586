"""What candidate and incumbent get wrong, cell by cell.

The cells of a gate: each candidate under each change, on the source images themselves, and by class.

A gate in one sentence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from counterpose_core.contract.gates import (
    FAILURE_POINT,
    CellState,
    GateCell,
    GateConfig,
    GateInstruction,
    GateItem,
    GateOutcome,
    GateResult,
)
from counterpose_core.contract.recipes import Recipe, is_recipe
from counterpose_core.gate.regression import Decided, Regression, decide, regression, units_needed
from counterpose_core.statistics.bootstrap import Floats, mean_by_source
from counterpose_core.types import Estimate
from counterpose_gateway.reports.numbers import counted
from counterpose_gateway.steps.estimator import Estimator


class Key(NamedTuple):
    """A candidate, a change, and a class; None for the source images themselves, and for all classes."""

    candidate: str
    change: str | None
    label: str | None = None

    @property
    def figure(self) -> str:
        """The name of the cell's figures, from which their draws come."""
        return f"{self.candidate}/{self.change}" + ("" if self.label is None else f"/{self.label}")


class Errors(NamedTuple):
    """Whether each of the two is wrong, 0 or 1: after the change, and on the source image."""

    candidate: float
    incumbent: float
    candidate_before: float
    incumbent_before: float


@dataclass
class ErrorsOfCell:
    """The errors on the pairs of one cell with their units; pairs without all answers are planned only."""

    answered: list[tuple[str, Errors]] = field(default_factory=list)
    planned: int = 0

    def add(self, unit: str, errors: Errors | None) -> None:
        """Add a pair, or a source image."""
        self.planned += 1
        if errors is not None:
            self.answered.append((unit, errors))

    @property
    def left_out(self) -> int:
        """How many pairs have no answer of one of the two."""
        return self.planned - len(self.answered)

    @property
    def candidate(self) -> list[tuple[str, float]]:
        """The candidate's errors, each with its unit."""
        return [(unit, errors.candidate) for unit, errors in self.answered]

    @property
    def incumbent(self) -> list[tuple[str, float]]:
        """The incumbent's errors, each with its unit."""
        return [(unit, errors.incumbent) for unit, errors in self.answered]

    @property
    def differences(self) -> Floats:
        """The candidate's mean error less the incumbent's of each unit (n,)."""
        return _means((unit, each.candidate - each.incumbent) for unit, each in self.answered)

    @property
    def drops(self) -> list[tuple[str, float]]:
        """The candidate's drop from the source image less the incumbent's, each with its unit."""
        return [
            (unit, (each.candidate - each.candidate_before) - (each.incumbent - each.incumbent_before))
            for unit, each in self.answered
        ]


def errors_by_cell(config: GateConfig, items: Iterable[GateItem]) -> dict[Key, ErrorsOfCell]:
    """Return the errors of every candidate under every change and on the source images, also by class."""
    found = defaultdict[Key, ErrorsOfCell](ErrorsOfCell)
    for candidate in config.request.classifiers:
        for change in (*config.regression_set.changes, None):
            found[Key(candidate, change)] = ErrorsOfCell()
    for of_class, unit, errors in _answers(config, items):
        for key in (of_class._replace(label=None), of_class):
            found[key].add(unit, errors)
    return dict(found)


def _answers(config: GateConfig, items: Iterable[GateItem]) -> Iterator[tuple[Key, str, Errors | None]]:
    """Yield the errors under each change, on each source image and of each failure point, by unit."""
    failures = FailurePoints()
    # One source image belongs to several pairs, and counts once.
    sources: dict[tuple[str, str, str], tuple[str, Errors | None]] = {}
    for item in items:
        if (told := item.instruction) is None:
            continue
        for candidate in config.request.classifiers:
            before, after = _errors(item.result, candidate, config.incumbent)
            yield Key(candidate, told.change, item.label), told.unit, after
            failures.add(candidate, item, told, after)
            at = (candidate, item.source_image, item.label)
            if before is not None or at not in sources:
                sources[at] = (told.unit, before)
    for (candidate, _, label), (unit, before) in sources.items():
        yield Key(candidate, None, label), unit, before
    yield from failures


class FailurePoints:
    """Where both classifiers begin to err on each image, by the answers to all levels of an operation.

    The failure point of an image is the least level at which a classifier errs (CNS-Bench 2025);
    what counts is the share of the levels from it on, 0 where the classifier is right at each.
    """

    def __init__(self) -> None:
        self._levels: dict[tuple[str, str, str, str, str], dict[int, Errors | None]] = {}

    def add(self, candidate: str, item: GateItem, told: GateInstruction, errors: Errors | None) -> None:
        """Add the answers to an image at a level; what is no operation has none."""
        if is_recipe(told.image):
            recipe = Recipe.parsed(told.image)
            of = (candidate, recipe.operation, item.label, told.unit, recipe.source)
            self._levels.setdefault(of, {})[recipe.level] = errors

    def __iter__(self) -> Iterator[tuple[Key, str, Errors | None]]:
        """Yield the cell, the unit and the shares of levels of each image that has all of several levels.

        A run that looked for failure points has few levels of most images.
        """
        every: dict[str, set[int]] = defaultdict(set)
        for (_, operation, *_), by_level in self._levels.items():
            every[operation] |= by_level.keys()
        for (candidate, operation, label, unit, _), by_level in self._levels.items():
            if len(by_level) > 1 and by_level.keys() == every[operation]:
                answers = [by_level[level] for level in sorted(by_level)]
                yield Key(candidate, f"{operation}{FAILURE_POINT}", label), unit, _failed_share(answers)


def _failed_share(answers: Sequence[Errors | None]) -> Errors | None:
    """The share of the levels from the first error on; None where an answer to one is missing."""
    answered = [each for each in answers if each is not None]
    if len(answered) < len(answers):
        return None
    candidate, incumbent = (
        float(np.maximum.accumulate(wrong).mean())
        for wrong in ([each.candidate for each in answered], [each.incumbent for each in answered])
    )
    return Errors(candidate, incumbent, answered[0].candidate_before, answered[0].incumbent_before)


def _errors(result: GateResult | None, candidate: str, incumbent: str) -> tuple[Errors | None, Errors | None]:
    """The errors on the source image alone, and on the pair."""
    if result is None:
        return None, None
    both = {candidate, incumbent}
    if not both <= result.original_predictions.keys():
        return None, None
    wrong = {spec: float(not result.original_predictions[spec].right) for spec in both}
    before = (wrong[candidate], wrong[incumbent])
    if not both <= result.predictions.keys():
        return Errors(*before, *before), None
    after = {spec: float(not result.predictions[spec].right) for spec in both}
    return Errors(*before, *before), Errors(after[candidate], after[incumbent], *before)


def _means(pairs: Iterable[tuple[str, float]]) -> Floats:
    return np.array(list(mean_by_source(pairs).values()), dtype=np.float64)


def unanswered_pairs(results: Iterable[GateResult]) -> Mapping[str, int]:
    """Return the number of pairs that each classifier could not answer."""
    counts: dict[str, int] = {}
    for result in results:
        for spec in result.unanswered:
            counts[spec] = counts.get(spec, 0) + 1
    return dict(sorted(counts.items()))


_SHARE = (0.0, 1.0)
_TWO_DROPS = (-2.0, 2.0)


@dataclass(frozen=True)
class Judged:
    """The cells to show, and the number of all that were tested."""

    cells: list[GateCell]
    tested: int


def judge(config: GateConfig, items: Iterable[GateItem], *, complete: bool) -> Judged:
    """Judge every cell; where the run is not ``complete``, no cell passes or fails.

    A bug of one class hides in the mean over all, so single classes are tested too. They are listed where
    they fail. They need not pass: few images of a class rule nothing out.
    """
    errors = errors_by_cell(config, items)
    estimator, tolerance = Estimator(config.request.seed), config.request.tolerance
    regressions = [
        regression(found.differences, estimator.generator(key.figure), tolerance=tolerance)
        for key, found in errors.items()
    ]
    cells = [
        _cell(key, found, each, decided, estimator, complete=complete, tolerance=tolerance)
        for (key, found), each, decided in zip(
            errors.items(), regressions, decide(regressions, tolerance), strict=True
        )
        if key.label is None or (complete and decided.state == "failed")
    ]
    # Those of all classes first.
    cells.sort(key=lambda cell: cell.label is not None)
    return Judged(cells, sum(each.tested for each in regressions))


def _cell(
    key: Key,
    found: ErrorsOfCell,
    each: Regression,
    decided: Decided,
    estimator: Estimator,
    *,
    complete: bool,
    tolerance: float,
) -> GateCell:
    state = _state(decided, left_out=found.left_out, complete=complete)
    drop = None if key.change is None else estimator.mean(f"{key.figure}/drop", found.drops, _TWO_DROPS)
    return GateCell(
        classifier=key.candidate,
        change=key.change,
        label=key.label,
        state=state,
        regression=each.estimate,
        p_adjusted=decided.p_adjusted,
        candidate=estimator.mean(f"{key.figure}/candidate", found.candidate, _SHARE),
        incumbent=estimator.mean(f"{key.figure}/incumbent", found.incumbent, _SHARE),
        drop=drop,
        pairs=found.planned,
        left_out=found.left_out,
        needed=units_needed(each, tolerance) if state == "inconclusive" else None,
    )


def _state(decided: Decided, *, left_out: int, complete: bool) -> CellState:
    """A regression that is proven stays proven; otherwise a missing answer could be one."""
    if not complete or (left_out and decided.state != "failed"):
        return "error"
    return decided.state


def in_state(cells: Sequence[GateCell], state: CellState) -> list[GateCell]:
    """Return the cells in a state, the largest regression first."""
    found = [cell for cell in cells if cell.state == state]
    return sorted(found, key=lambda cell: -(cell.regression.estimate or 0.0))


def verdict(config: GateConfig, outcome: GateOutcome | None, judged: Judged) -> str:
    """Say the outcome, with the cell that decides it, and how many classes nothing was tested of."""
    said, blind_spot = _outcome_said(config, outcome, judged), config.regression_set.blind_spot
    return said if outcome in (None, "error") or not blind_spot else f"{said} {blind_spot}"


def _tested_of(cells: Sequence[GateCell], tested: Sequence[GateCell]) -> str:
    skipped = len(in_state(cells, "skipped"))
    if not skipped:
        return counted(len(tested), "cell")
    return f"{len(tested)} of {counted(len(cells), 'cell')} ({skipped} not tested: too few source images)"


def _outcome_said(config: GateConfig, outcome: GateOutcome | None, judged: Judged) -> str:
    tolerance = f"{100 * config.request.tolerance:g} points"
    cells = judged.cells
    tested = [cell for cell in cells if cell.state not in ("skipped", "error")]
    match outcome:
        case None:
            return "The gate has not ended."
        case "failed":
            found = in_state(cells, "failed")
            cells_fail = f"{len(found)} of {judged.tested} cells regress by more than {tolerance}"
            return f"Failed: {cells_fail}; {_said(found[0])}."
        case "error":
            missing = sum(cell.left_out for cell in cells)
            return (
                f"No verdict: the run did not answer every image; {missing} answers are missing in "
                f"{len(cells)} cells."
            )
        case "inconclusive":
            found = in_state(cells, "inconclusive")
            if not found:
                return "Inconclusive: no change has enough images for a test."
            needed = found[0].needed
            more = f"; about {needed} source images like these would tell" if needed else ""
            return f"Inconclusive: {_said(found[0])}, and {tolerance} are allowed{more}."
        case "passed":
            largest = in_state(tested, "passed")[0]
            by_class = judged.tested - len(tested)
            of_class = (
                f"none proven in {counted(by_class, 'cell')} of a class"
                if by_class
                else "no class was tested"
            )
            within = f"no regression above {tolerance} in {_tested_of(cells, tested)}, and {of_class}"
            is_worse = (largest.regression.estimate or 0.0) > 0.0
            most = "the largest is" if is_worse else "no estimate is above 0, and the highest is"
            return f"Passed: {within}; {most} {_said(largest)}."


def _said(cell: GateCell) -> str:
    of = " of the levels" if cell.change is not None and cell.change.endswith(FAILURE_POINT) else ""
    return f"{cell.classifier} under {cell.name}: {points(cell.regression)}{of}"


def points(estimate: Estimate) -> str:
    """Return an estimate in percentage points with its interval and n."""
    if estimate.estimate is None or estimate.low is None or estimate.high is None:
        return f"- (n={estimate.n})"
    # A negative zero becomes a plain one.
    shown = (round(100 * value, 1) + 0.0 for value in (estimate.estimate, estimate.low, estimate.high))
    figures = (f"{value:+.1f}" for value in shown)
    return "{} points [{}, {}] (n={})".format(*figures, estimate.n)
