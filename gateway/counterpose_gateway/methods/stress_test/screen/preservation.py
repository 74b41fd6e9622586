"""What kept images changed beside what was asked for: recorded, and never a reason to drop one."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from counterpose_core.contract.base import MAX_BATCH, Outcome
from counterpose_core.contract.preservation import Preservation, PreservationItem, PreservationRequest
from counterpose_core.errors import CounterposeError, LeaseLost
from counterpose_gateway.methods.stress_test.screen.edits import Draft
from counterpose_gateway.methods.stress_test.screen.subject import Subject
from counterpose_gateway.runs.calls import Calls, repeated

_logger = logging.getLogger(__name__)


async def record_preservation(calls: Calls, subject: Subject, drafts: Sequence[Draft]) -> list[Draft]:
    """Return the drafts with what each changed; those whose measurement fails stay without it."""
    if not subject.config.measures_preservation:
        return list(drafts)
    recorded = list[Draft]()
    for start in range(0, len(drafts), MAX_BATCH):
        recorded += await _record_chunk(calls, subject, drafts[start : start + MAX_BATCH])
    return recorded


async def _record_chunk(calls: Calls, subject: Subject, drafts: Sequence[Draft]) -> list[Draft]:
    request = PreservationRequest(
        items=[
            PreservationItem(
                original=subject.image, edited=draft.image, control=draft.item.kind == "reconstruction"
            )
            for draft in drafts
        ]
    )
    ask = partial(calls.ask, "scorer", calls.services.scorer.preservation, request)
    try:
        outcomes = await repeated(ask)
    except LeaseLost:
        raise
    except CounterposeError as error:
        _logger.warning("the preservation of %d images is left out: %s", len(drafts), error.detail)
        return list(drafts)
    return [_recorded(draft, outcome) for draft, outcome in zip(drafts, outcomes, strict=True)]


def _recorded(draft: Draft, outcome: Outcome[Preservation]) -> Draft:
    try:
        measured = outcome.unwrap()
    except CounterposeError as error:
        _logger.warning("the preservation of item %s is left out: %s", draft.item.id, error.detail)
        return draft
    if draft.item.kind == "placebo":
        # It keeps the meaning, so an image without a visible change is right.
        faults = [fault for fault in measured.faults if fault != "ignored"]
        measured = measured.model_copy(update={"faults": faults})
    return Draft(draft.item, draft.result.model_copy(update={"preservation": measured}))
