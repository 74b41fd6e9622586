"""The region of edits on one image, bounded by its own mask or by one that the suite's segmenter makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from counterpose_core.contract.regions import OF_MASKS, ConfinedBy, ConfinedEdit, EditRegion
from counterpose_core.contract.scorer import SegmentItem, SegmentRequest
from counterpose_gateway.methods.stress_test.regions import SEGMENTER
from counterpose_gateway.methods.stress_test.screen.subject import Subject
from counterpose_gateway.methods.stress_test.screen.text_filters import KeptEdit
from counterpose_gateway.records.items import LeasedItem
from counterpose_gateway.runs.calls import Calls
from counterpose_gateway.runs.drops import Drops

NO_REGION = "no-region"
"""The reason of an edit whose image has no mask that bounds its region."""


async def bounded(
    calls: Calls, subject: Subject, edits: Sequence[KeptEdit], controls: Sequence[LeasedItem]
) -> tuple[Subject, tuple[list[KeptEdit], Drops]]:
    """Return the subject with its region and the edits; drop these where the run wants a region in vain.

    ``controls`` have the region of the edits where the backend edits them too.

    Raises:
        BackendError: the segmenter is down.
    """
    wanted, drops = subject.config.request.region, Drops()
    if wanted not in OF_MASKS:
        return subject, (list(edits), drops)
    reconstructs = subject.config.editing.capabilities.reconstruct
    confining = [*(edit.item for edit in edits), *(() if reconstructs else controls)]
    if not confining:
        return subject, ([], drops)
    mask, why = (subject.source.instruction or {}).get("mask"), "the image has none"
    if mask is None and SEGMENTER in subject.config.models:
        asked = SegmentRequest(items=[SegmentItem(image=subject.image, label=subject.label)])
        outcomes = await calls.ask("scorer", calls.services.scorer.segment, asked, model=SEGMENTER)
        with drops.on_error(confining):
            found = outcomes[0].unwrap()
            mask, why = found.mask, found.why
    if drops.ended:
        return subject, ([], drops)
    if mask is None:
        for edit in edits:
            drops.filtered(edit.item, NO_REGION, f"its region needs a mask of the object, and {why}")
        return subject, ([], drops)
    side = "outside" if wanted == "background" else "inside"
    return replace(subject, region=EditRegion(mask=mask, edits=side)), (list(edits), drops)


def confined(subject: Subject, by: ConfinedBy | None, unchanged: str | None) -> ConfinedEdit | None:
    """Return what is recorded of the region of an image's edits."""
    if subject.region is None:
        return None
    return ConfinedEdit(mask=subject.region.mask, edits=subject.region.edits, by=by, unchanged=unchanged)
