"""Can the run be trusted: what the controls alone cost, and how many edits passed, in one line."""

from __future__ import annotations

from dataclasses import dataclass

from counterpose_core.contract.preservation import IMAGES, MEANINGS, PreservationSummary
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_gateway.methods.stress_test.summary.verdict import MOST_CHANGED
from counterpose_gateway.reports.numbers import percent

LEAST_KEPT = 0.3
"""Share of kept edits below which the filters choose what is measured."""


MOST_FAULTY = 0.05
"""Share of images with one fault that a right editor may have."""


@dataclass(frozen=True)
class Trust:
    """The line, and whether every part of it is in order."""

    good: bool
    text: str

    @property
    def badge(self) -> str:
        """An icon and a word."""
        return "✓ controls in order" if self.good else "⚠ look at the controls"


def trust(summary: StressTestSummary) -> Trust:
    """Compare the controls of the worst classifier, and the yield, with their limits."""
    models = summary.models.values()
    changed = [
        share.estimate
        for model in models
        if (share := model.changed_by_reconstruction) is not None and share.estimate is not None
    ]
    placebos = [
        abs(drop)
        for model in models
        if (placebo := model.controls.get("placebo")) is not None
        and (drop := placebo.drop.estimate) is not None
    ]
    share = summary.yields.get("kept") or summary.yields.get("kept.intervention")
    kept = None if share is None else share.estimate
    parts = [
        f"the editor alone changes {percent(max(changed))} of the answers at most"
        if changed
        else "no control with nothing changed was made",
        f"a change of wording alone changes accuracy by {100 * max(placebos):.0f} points at most"
        if placebos
        else "no placebo was kept",
        f"{percent(kept)} of the edits passed every filter" if kept is not None else "no edit was decided",
    ]
    limits = [
        bool(changed) and max(changed) <= MOST_CHANGED,
        bool(placebos) and max(placebos) <= MOST_CHANGED,
    ]
    if summary.preservation is not None:
        text, in_order = _preserved(summary.preservation)
        parts.append(text)
        limits.append(in_order)
    if summary.judges is not None and (unreliable := summary.judges.unreliable):
        parts.append(f"more than a tenth of the votes of {' and '.join(unreliable)} are wrong")
        limits.append(False)
    text = "; ".join(parts)
    return Trust(all(limits) and kept is not None and kept >= LEAST_KEPT, f"{text[:1].upper()}{text[1:]}.")


def _preserved(found: PreservationSummary) -> tuple[str, bool]:
    """The fault that is shown to be the commonest, and whether it may be as rare as a right editor's."""
    worst = max(found.worst.items(), key=lambda row: row[1][1].low or 0.0, default=None)
    if not any("moved" in row.shares for row in found.rows.values()):
        return "whether images moved cannot be told", False
    if worst is None:
        return "no image was seen to move, or to change more than it was to", True
    name, (fault, share) = worst
    told = f"{percent(share.estimate or 0.0)} of the {IMAGES.get(name, name)} {MEANINGS[fault]}"
    return told, (share.low or 0.0) <= MOST_FAULTY
