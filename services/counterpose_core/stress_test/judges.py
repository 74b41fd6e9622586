"""How far a judge can be believed: its calibration as shares with intervals."""

from __future__ import annotations

from counterpose_core.contract.judges import Calibration, CalibrationFigures
from counterpose_core.statistics.bootstrap import proportion

MOST_WRONG = 0.1
"""A judge is unreliable if its share of wrong votes is shown to be larger, by the interval's lower end."""


def calibration_figures(counts: Calibration) -> CalibrationFigures:
    """Return a calibration as shares, with intervals over edits as independent trials."""
    right = counts.right_kept + counts.right_dropped + counts.right_without_vote
    kept, dropped = counts.right_kept + counts.wrong_kept, counts.right_dropped + counts.wrong_dropped
    errors = proportion(counts.wrong_kept + counts.right_dropped, kept + dropped)
    return CalibrationFigures(
        against=counts.against,
        precision=proportion(counts.right_kept, kept),
        recall=proportion(counts.right_kept, right),
        errors=errors,
        unreliable=errors.low is not None and errors.low > MOST_WRONG,
        without_vote=counts.without_vote,
    )
