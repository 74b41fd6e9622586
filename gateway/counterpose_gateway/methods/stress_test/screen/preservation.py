"""What kept images changed beside what was asked for: recorded, and a filter where the run refuses faults."""

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
from counterpose_gateway.runs.drops import Drops

PRESERVATION = "gate-preservation"
"""The reason of an item with a fault that the run refuses."""

_logger = logging.getLogger(__name__)


async def keep_preserved(
    calls: Calls, subject: Subject, drafts: Sequence[Draft]
) -> tuple[list[Draft], Drops]:
    """Record what each draft changed, and drop those with a fault that the run refuses.

    The control stays, whatever its faults: nothing else tells what the editor does by itself. Where no fault
    is refused, a scorer that fails costs the record alone; else the image fails. An image of which a fault
    cannot be told is kept.
    """
    if not subject.config.measures_preservation:
        return list(drafts), Drops()
    kept, drops = list[Draft](), Drops()
    for start in range(0, len(drafts), MAX_BATCH):
        chunk = drafts[start : start + MAX_BATCH]
        kept += await (_judged if subject.config.request.refused_faults else _recorded)(
            calls, subject, chunk, drops
        )
    return kept, drops


async def _judged(calls: Calls, subject: Subject, drafts: Sequence[Draft], drops: Drops) -> list[Draft]:
    """Record each draft, or drop it."""
    kept, refused = list[Draft](), subject.config.request.refused_faults
    with drops.on_error([draft.item for draft in drafts]):
        for draft, outcome in zip(drafts, await _measured(calls, subject, drafts), strict=True):
            with drops.on_error([draft.item]):
                made = _with(draft, outcome)
                told = made.result.preservation
                faults = [fault for fault in refused if told is not None and fault in told.faults]
                if not faults or _is_control(draft):
                    kept.append(made)
                else:
                    detail = f"the run refuses these faults of the image: {', '.join(faults)}"
                    drops.filtered(draft.item, PRESERVATION, detail, made.result)
    return kept


async def _recorded(calls: Calls, subject: Subject, drafts: Sequence[Draft], drops: Drops) -> list[Draft]:
    """Record each draft that could be measured; none is dropped."""
    try:
        outcomes = await repeated(partial(_measured, calls, subject, drafts))
    except LeaseLost:
        raise
    except CounterposeError as error:
        _logger.warning("the preservation of %d images is left out: %s", len(drafts), error.detail)
        return list(drafts)
    recorded = []
    for draft, outcome in zip(drafts, outcomes, strict=True):
        try:
            recorded.append(_with(draft, outcome))
        except CounterposeError as error:
            _logger.warning("the preservation of item %s is left out: %s", draft.item.id, error.detail)
            recorded.append(draft)
    return recorded


async def _measured(calls: Calls, subject: Subject, drafts: Sequence[Draft]) -> list[Outcome[Preservation]]:
    request = PreservationRequest(items=[_asked(subject, draft) for draft in drafts])
    return await calls.ask("scorer", calls.services.scorer.preservation, request)


def _asked(subject: Subject, draft: Draft) -> PreservationItem:
    control, region = _is_control(draft), draft.result.region
    bounded = region is not None and not control
    return PreservationItem(
        original=subject.image,
        edited=draft.image,
        control=control,
        region=subject.region if bounded else None,
        unchanged=region.unchanged if region is not None and bounded else None,
    )


def _is_control(draft: Draft) -> bool:
    return draft.item.kind == "reconstruction"


def _with(draft: Draft, outcome: Outcome[Preservation]) -> Draft:
    """Return the draft with its record.

    Raises:
        CounterposeError: it could not be measured.
    """
    measured = outcome.unwrap()
    if draft.item.kind == "placebo":
        # It keeps the meaning, so an image without a visible change is right.
        faults = [fault for fault in measured.faults if fault != "ignored"]
        measured = measured.model_copy(update={"faults": faults})
    return Draft(draft.item, draft.result.model_copy(update={"preservation": measured}))
