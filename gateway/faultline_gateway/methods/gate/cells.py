"""The cells of a gate: each candidate under each change, and on the source images themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from faultline_core.contract.gates import CellState, GateCell, GateConfig, GateItem, GateResult
from faultline_core.gate.regression import Decided, Regression, decide, regression, units_needed
from faultline_core.statistics.bootstrap import Floats, mean_by_source
from faultline_gateway.runs.estimator import Estimator

SOURCE_IMAGES = "source images"

_TWO_LOSSES = (-2.0, 2.0)
_TWO_SHARES = (-1.0, 1.0)


@dataclass
class _Answered:
    """What candidate and incumbent lose on each pair of one cell, as (unit, loss)."""

    candidate: list[tuple[str, float]] = field(default_factory=list)
    incumbent: list[tuple[str, float]] = field(default_factory=list)
    planned: int = 0

    def add(self, unit: str, losses: tuple[float, float] | None) -> None:
        self.planned += 1
        if losses is not None:
            self.candidate.append((unit, losses[0]))
            self.incumbent.append((unit, losses[1]))

    def differences(self) -> Floats:
        """The candidate's loss less the incumbent's of each unit (n,)."""
        candidate, incumbent = mean_by_source(self.candidate), mean_by_source(self.incumbent)
        return np.array([candidate[unit] - incumbent[unit] for unit in candidate])


_Key = tuple[str, str | None]
"""A candidate and a change; None for the source images themselves."""


def cells_of(config: GateConfig, items: Iterable[GateItem], *, complete: bool) -> list[GateCell]:
    """Judge every cell; where the run is not ``complete``, no cell passes or fails."""
    answered = _answered(config, items)
    estimator, tolerance = Estimator(config.request.seed), config.request.tolerance
    regressions = [
        regression(
            found.differences(),
            estimator.generator(f"{candidate}/{change}"),
            tolerance=tolerance,
            bounds=_TWO_SHARES if change is None else _TWO_LOSSES,
        )
        for (candidate, change), found in answered.items()
    ]
    return [
        _cell(key, answered[key], each, decided, estimator, complete=complete, tolerance=tolerance)
        for key, each, decided in zip(answered, regressions, decide(regressions, tolerance), strict=True)
    ]


def _answered(config: GateConfig, items: Iterable[GateItem]) -> dict[_Key, _Answered]:
    candidates, changes = config.request.classifiers, config.regression_set.changes
    found: dict[_Key, _Answered] = {
        (candidate, change): _Answered() for candidate in candidates for change in (*changes, None)
    }
    # One source image belongs to several pairs, and counts once.
    sources: dict[tuple[str, str, str], tuple[str, tuple[float, float] | None]] = {}
    for item in items:
        if item.instruction is None:
            continue
        for candidate in candidates:
            before, after = _losses(item.result, candidate, config.incumbent)
            found[candidate, item.instruction.change].add(item.instruction.unit, after)
            key = (candidate, item.source_image, item.label)
            if before is not None or key not in sources:
                sources[key] = (item.instruction.unit, before)
    for (candidate, _, _), (unit, before) in sources.items():
        found[candidate, None].add(unit, before)
    return found


def _losses(
    result: GateResult | None, candidate: str, incumbent: str
) -> tuple[tuple[float, float] | None, tuple[float, float] | None]:
    """What candidate and incumbent lose on the source image, and from it to the counterfactual."""
    if result is None:
        return None, None
    before, after = result.original_predictions, result.predictions
    if not {candidate, incumbent} <= before.keys():
        return None, None
    wrong = {spec: float(before[spec].rank_true > 1) for spec in (candidate, incumbent)}
    on_source = wrong[candidate], wrong[incumbent]
    if not {candidate, incumbent} <= after.keys():
        return on_source, None
    lost = {spec: float(after[spec].rank_true > 1) - wrong[spec] for spec in (candidate, incumbent)}
    return on_source, (lost[candidate], lost[incumbent])


def _cell(
    key: _Key,
    found: _Answered,
    each: Regression,
    decided: Decided,
    estimator: Estimator,
    *,
    complete: bool,
    tolerance: float,
) -> GateCell:
    candidate, change = key
    left_out = found.planned - len(found.candidate)
    state = _state(decided, left_out=left_out, complete=complete)
    bounds = (0.0, 1.0) if change is None else (-1.0, 1.0)
    return GateCell(
        classifier=candidate,
        change=change,
        state=state,
        regression=each.estimate,
        p_adjusted=decided.p_adjusted,
        candidate=estimator.mean(f"{candidate}/{change}/candidate", found.candidate, bounds),
        incumbent=estimator.mean(f"{candidate}/{change}/incumbent", found.incumbent, bounds),
        pairs=found.planned,
        left_out=left_out,
        needed=units_needed(each, tolerance) if state == "inconclusive" else None,
    )


def _state(decided: Decided, *, left_out: int, complete: bool) -> CellState:
    """A regression that is proven stays proven; otherwise a missing answer could be one."""
    if not complete:
        return "error"
    if left_out and decided.state != "failed":
        return "error"
    return decided.state


def unanswered_pairs(results: Iterable[GateResult]) -> Mapping[str, int]:
    """Return the number of pairs that each classifier could not answer."""
    counts: dict[str, int] = {}
    for result in results:
        for spec in result.unanswered:
            counts[spec] = counts.get(spec, 0) + 1
    return dict(sorted(counts.items()))


def failing(cells: Sequence[GateCell], state: CellState) -> list[GateCell]:
    """Return the cells in a state, the largest regression first."""
    found = [cell for cell in cells if cell.state == state]
    return sorted(found, key=lambda cell: -(cell.regression.estimate or 0.0))
