"""The cells of a gate: each candidate under each change, on the source images themselves, and by class."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from counterpose_core.contract.gates import CellState, GateCell, GateConfig, GateItem
from counterpose_core.gate.regression import Decided, Regression, decide, regression, units_needed
from counterpose_gateway.methods.gate.errors import ErrorsOfCell, Key, errors_by_cell
from counterpose_gateway.steps.estimator import Estimator

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
