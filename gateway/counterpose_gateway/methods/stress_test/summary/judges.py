"""What the judges of a run said of the screen's edits, and where they disagree."""

from __future__ import annotations

import numpy as np

from counterpose_core.contract.judges import VERDICTS, Disagreement, JudgeRow, JudgesSummary, Rule
from counterpose_core.contract.stress_test_thresholds import GateThresholds
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.statistics.coded import Flags, Ints
from counterpose_core.stress_test.judges import calibration_figures
from counterpose_core.types import Estimate
from counterpose_gateway.methods.stress_test.columns import ItemColumns
from counterpose_gateway.methods.stress_test.columns.columns import total
from counterpose_gateway.methods.stress_test.columns.part import verdict_of
from counterpose_gateway.methods.stress_test.summary.estimates import LanceEstimator
from counterpose_gateway.summaries.columns import NONE

MOST_LISTED = 100
YES, NO = VERDICTS.index("yes"), VERDICTS.index("no")


def summarize_judges(
    columns: ItemColumns,
    config: StressTestConfig,
    estimator: LanceEstimator,
    rule: Rule | None = None,
    gate: GateThresholds | None = None,
) -> JudgesSummary | None:
    """Count the verdicts on the screen's edits and interventions; None where CLIP alone judged."""
    used = rule or config.request.rule
    edits = columns.of("kind", "edit") | columns.of("kind", "intervention")
    at = np.flatnonzero(columns.screened & edits & (columns.verdicts != NONE))
    if not used.asked or not len(at):
        return None
    units = columns.unit[at]
    said: dict[str, Ints] = {name: verdict_of(columns.verdicts[at], name) for name in used.judges}
    differ: Flags = _any(said, YES) & _any(said, NO)
    return JudgesSummary(
        rule=str(used),
        rows={
            name: _row(name, verdicts, units, estimator, votes=name in used.voters).model_copy(
                update=_calibrated(name, config, gate or config.gate)
            )
            for name, verdicts in said.items()
        },
        judged=len(at),
        disagreed=estimator.share_of("judges/disagreed", units, differ),
        disagreements=[
            Disagreement(
                item=columns.ids[int(at[place])],
                verdicts={
                    name: VERDICTS[verdicts[place]] for name, verdicts in said.items() if verdicts[place] >= 0
                },
                kept=bool(columns.done[at[place]]),
            )
            for place in np.flatnonzero(differ)[:MOST_LISTED].tolist()
        ],
    )


def _any(said: dict[str, Ints], verdict: int) -> Flags:
    return np.asarray(np.any([verdicts == verdict for verdicts in said.values()], axis=0))


def _row(name: str, verdicts: Ints, units: Ints, estimator: LanceEstimator, *, votes: bool) -> JudgeRow:
    voted = (verdicts == YES) | (verdicts == NO)
    counts = {verdict: total(verdicts == at) for at, verdict in enumerate(VERDICTS)}
    yes: Estimate = estimator.share_of(f"judges/{name}", units[voted], verdicts[voted] == YES)
    return JudgeRow(
        votes=votes, verdicts={verdict: number for verdict, number in counts.items() if number}, yes=yes
    )


def _calibrated(name: str, config: StressTestConfig, gate: GateThresholds) -> dict[str, object]:
    """What a row says of a judge's calibration; that of CLIP holds for the thresholds that it was made by."""
    known = config.calibrations.get(name)
    if known is None:
        return {}
    if name == "clip" and known.gate != gate:
        return {"at_other_thresholds": True}
    return {"calibration": calibration_figures(known)}
