"""A gate in one sentence."""

from __future__ import annotations

from counterpose_core.contract.gates import GateCell, GateConfig, GateOutcome
from counterpose_core.types import Estimate
from counterpose_gateway.methods.gate.cells import Judged, in_state


def verdict(config: GateConfig, outcome: GateOutcome | None, judged: Judged) -> str:
    """Say the outcome, with the cell that decides it, and how many classes nothing was tested of."""
    said, blind_spot = _outcome_said(config, outcome, judged), config.regression_set.blind_spot
    return said if outcome in (None, "error") or not blind_spot else f"{said} {blind_spot}"


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
            of_class = f"none proven in {by_class} cells of a class" if by_class else "no class was tested"
            within = f"no regression above {tolerance} in {len(tested)} cells, and {of_class}"
            return f"Passed: {within}; the largest is {_said(largest)}."


def _said(cell: GateCell) -> str:
    return f"{cell.classifier} under {cell.name}: {points(cell.regression)}"


def points(estimate: Estimate) -> str:
    """Return an estimate in percentage points with its interval and n."""
    if estimate.estimate is None or estimate.low is None or estimate.high is None:
        return f"- (n={estimate.n})"
    figures = (f"{100 * value:+.1f}" for value in (estimate.estimate, estimate.low, estimate.high))
    return "{} points [{}, {}] (n={})".format(*figures, estimate.n)
