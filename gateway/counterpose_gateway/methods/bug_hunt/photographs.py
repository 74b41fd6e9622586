"""Photographs of the user's as external check: do they fail more often where the description fits them?"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from counterpose_core.blobs import cache_key
from counterpose_core.bug_hunt.comparison import above_baseline
from counterpose_core.contract.bug_hunt_summary import PhotographRates
from counterpose_core.contract.bug_hunts import BugHuntCreate, HuntInstruction
from counterpose_core.contract.datasets import Source
from counterpose_core.errors import InvalidRequest
from counterpose_gateway.methods.bug_hunt.hunt import Hunt
from counterpose_gateway.methods.bug_hunt.measuring import OwnDescription
from counterpose_gateway.records.items import PlannedItem
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.submission import named_dataset
from counterpose_gateway.steps.failed_samples import count_failures
from counterpose_gateway.steps.failure_rates import failure_rate

MOST_PHOTOGRAPHS = 1000
"""Of each of the two datasets."""
_PER_CALL = 16

Photographs = dict[int | None, list[Source]]
"""Images by the number of the description that fits them; None is the label alone."""


async def photographs_of(
    create: BugHuntCreate, own: Sequence[OwnDescription], context: RunContext
) -> Photographs:
    """Return the images of the label that the request's two datasets have.

    Raises:
        InvalidRequest: there is not exactly one description, or a dataset has no image of its label; the
            pointer is in ``/photographs``.
        UnknownDataset: a dataset does not exist.
    """
    if create.photographs is None:
        return {}
    if len(own) != 1:
        raise InvalidRequest(
            f"photographs are compared for one description, and there are {len(own)}", pointer="/photographs"
        )
    found: Photographs = {}
    named = {"described": create.photographs.described, "alone": create.photographs.alone}
    for field, number in (("described", own[0].number), ("alone", None)):
        pointer = f"/photographs/{field}"
        dataset = await asyncio.to_thread(named_dataset, named[field], pointer, context.ledger)
        sources = await asyncio.to_thread(context.ledger.datasets.sources, dataset.name)
        found[number] = [each for each in sources if each.label == own[0].label][:MOST_PHOTOGRAPHS]
        if not found[number]:
            raise InvalidRequest(
                f"dataset {dataset.name!r} has no image of {own[0].label!r}", pointer=pointer
            )
    return found


def plan_photographs(photographs: Photographs) -> Iterator[PlannedItem]:
    """Plan an item for each photograph."""
    for number, sources in photographs.items():
        told = HuntInstruction(phase="photographs", hypothesis=number)
        for place, source in enumerate(sources):
            yield PlannedItem(
                item_key=cache_key(photograph=source.id, of=number or 0),
                ordinal=0,
                kind="sample",
                item_group=cache_key(photographs=number or 0, chunk=place // _PER_CALL),
                source_image=source.image,
                label=source.label,
                slot=place,
                instruction=told.model_dump(mode="json", exclude_defaults=True),
            )


def photograph_rates(hunt: Hunt, label: str, number: int, classifier: str) -> PhotographRates | None:
    """Return both rates on photographs, or None where there are none.

    No photograph is left out as not showing its label: the user says what it shows.
    """
    described = count_failures(hunt.record.of_label("photographs", label, number), classifier, None)
    alone = count_failures(hunt.record.of_label("photographs", label), classifier, None)
    if not described.made:
        return None
    criterion = hunt.request.criterion
    return PhotographRates(
        described=failure_rate(described, criterion),
        alone=failure_rate(alone, criterion),
        p=above_baseline(described.counts, alone.counts),
    )
