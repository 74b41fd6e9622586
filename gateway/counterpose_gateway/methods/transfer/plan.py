"""Plan a transfer: every image of an ended run that fools a classifier, and images of the labels alone."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from counterpose_core.blobs import cache_key
from counterpose_core.contract.runs import Run
from counterpose_core.contract.transfers import (
    TransferConfig,
    TransferCreate,
    TransferInstruction,
    TransferPhase,
)
from counterpose_core.errors import InvalidRequest, NotFound, RunNotEnded
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.methods.transfer.fooling import FoolingImage, FoolingImages, fooling_images
from counterpose_gateway.records.items import Plan, PlannedItem, numbered
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.submission import require_quota
from counterpose_gateway.steps.classifiers import check_classifiers
from counterpose_gateway.steps.label_images import check_mistakes
from counterpose_gateway.steps.parents import failure_parents, notes_on_parents
from counterpose_gateway.version import VERSIONS

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger

_PER_CALL = 16


async def plan(create: TransferCreate, context: RunContext) -> Plan:
    """Resolve the request and plan every image.

    Raises:
        NotFound: there is no such run.
        RunNotEnded: it has not ended.
        InvalidRequest: it is of another kind, or has no image that fools a classifier; the target is a label
            of its images, or no class.
        QuotaExceeded: there are more images than a run may have items.
        UnknownModel, ClassMapMismatch: as of other runs.
    """
    run = await asyncio.to_thread(_source, create.source, context.ledger)
    found = await asyncio.to_thread(fooling_images, run, context.ledger)
    if not found.fooling:
        raise InvalidRequest(
            f"the run {run.id!r} has no image that fools its classifiers; nothing can transfer",
            pointer="/source",
        )
    criterion = create.criterion or found.criterion
    labels = list(dict.fromkeys(each.label for each in found.fooling))
    check_mistakes(criterion, found.classes, labels)
    parents = failure_parents(criterion, found.parents, found.classes)
    fooling = _limited(found, create.images)
    baseline = _spread(found.baseline, create.images)
    require_quota(len(fooling) + len(baseline), context, "/images")
    # Its classes are those of the run that it shows images of, and are called as they were there.
    mapped = create.label_map or run.resolved_config["request"].get("label_map", {})
    create = create.model_copy(update={"label_map": mapped})
    example = fooling[0].image
    await check_classifiers(create.classifiers, found.classes, example, context.services, label_map=mapped)
    config = TransferConfig(
        request=create,
        source_kind=run.kind,
        suite=context.suite.name,
        versions=VERSIONS,
        rows=list(found.rows),
        labels=labels,
        classes=list(found.classes),
        parents=parents,
        criterion=criterion,
        chosen_by=found.criterion,
        notes=[
            "a rate speaks of images of these captions; other captions may transfer more or less often",
            "images were chosen by the classifiers of the rows: of these the rate says nothing",
            *notes_on_parents(criterion, labels, parents),
        ],
    )
    planned = [*_planned("fooling", fooling), *_planned("baseline", baseline)]
    return Plan("", config, list(numbered(planned)), parent=None)


def _source(run_id: str, ledger: Ledger) -> Run:
    try:
        run = ledger.runs.get(run_id)
    except NotFound as error:
        error.pointer = "/source"
        raise
    if run.kind not in ("adversarial-dataset", "bug-hunt"):
        raise InvalidRequest(
            f"run {run_id!r} is a {run.kind}; name an adversarial dataset or a bug hunt", pointer="/source"
        )
    if run.state not in FINAL_RUN_STATES:
        raise RunNotEnded(f"run {run_id!r} has not ended yet; wait for it", pointer="/source")
    return run


def _limited(found: FoolingImages, most: int) -> list[FoolingImage]:
    """At most so many images of each classifier; one that fools several counts for each."""
    counts, kept = Counter[str](), list[FoolingImage]()
    for each in _spread(found.fooling, len(found.fooling)):
        if any(counts[spec] < most for spec in each.fools):
            counts.update(each.fools)
            kept.append(each)
    return kept


def _spread(images: Sequence[FoolingImage], most: int) -> list[FoolingImage]:
    # A reference is a digest: its order is as good as a random one.
    return sorted(images, key=lambda each: (each.image, each.label))[:most]


def _planned(phase: TransferPhase, images: Iterable[FoolingImage]) -> Iterator[PlannedItem]:
    places = Counter[str]()
    for each in images:
        place, label = places[each.label], each.label
        places[label] += 1
        told = TransferInstruction(phase=phase, fools=list(each.fools), caption=each.prompt)
        yield PlannedItem(
            item_key=cache_key(phase=phase, label=label, image=each.image, place=place),
            ordinal=0,
            kind="image",
            item_group=cache_key(phase=phase, label=label, chunk=place // _PER_CALL),
            source_image=each.image,
            label=label,
            slot=place,
            instruction=told.model_dump(mode="json", exclude_defaults=True),
        )
