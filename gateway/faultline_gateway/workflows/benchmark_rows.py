"""The rows of a benchmark's summary: what the core found, in the words of the contract."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from faultline_core.accuracy_line import Slope
from faultline_core.confounder_gap import ConfounderGap
from faultline_core.contract.shift_benchmark_summary import (
    EffectSummary,
    GapSummary,
    ModelDrop,
    PictureCounts,
    SlopeSummary,
)
from faultline_core.shift_effect import ShiftEffect
from faultline_core.shift_filter import Yield
from faultline_gateway.workflows.benchmark_evidence import Placed
from faultline_gateway.workflows.benchmark_pictures import NOT_FOUND
from faultline_gateway.workflows.objectionable import OBJECTIONABLE


def picture_counts(placed: Sequence[Placed], found: Yield) -> PictureCounts:
    """Say what became of every item of a condition; ``found`` is the filter's verdict on those made."""
    ends = Counter(_end(each) for each in placed)
    return PictureCounts(
        planned=len(placed),
        kept=found.kept,
        without_object=found.without_object,
        without_shift=found.without_shift,
        without_both=found.without_both,
        objectionable=ends[OBJECTIONABLE],
        not_found=ends[NOT_FOUND],
        failed=ends["failed"],
        unmade=ends["unmade"],
    )


def _end(placed: Placed) -> str:
    if placed.state == "filtered":
        return placed.reason or "unknown"
    return placed.state if placed.state in ("done", "failed") else "unmade"


def effect_row(effect: ShiftEffect | None) -> EffectSummary | None:
    """What a shift costs, None where no class is left."""
    if effect is None:
        return None
    return EffectSummary(
        classes=list(effect.classes),
        models={
            each.model: ModelDrop(base=each.base, shifted=each.shifted, drop=each.drop)
            for each in effect.models
        },
        impact=effect.impact,
        p=effect.p,
        p_adjusted=effect.p_holm,
        slope=_slope(effect.slope),
        probit_slope=_slope(effect.probit_slope),
    )


def gap_row(gap: ConfounderGap | None) -> GapSummary | None:
    """What the generator alone costs, None where there is nothing real to tell it by."""
    return None if gap is None else GapSummary(real=gap.real, base=gap.base, gap=gap.gap)


def _slope(slope: Slope) -> SlopeSummary:
    return SlopeSummary(slope=slope.slope, without_one=slope.without_one, leaning_on=slope.leaning_on)
