"""Plan a transfer: every image of an ended run that fools a classifier, and images of the labels alone.

The images of an ended run that fool its classifiers, and its images of the labels alone.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from counterpose_core.blobs import cache_key
from counterpose_core.contract.adversarial_datasets import AdversarialDatasetConfig, AdversarialItem
from counterpose_core.contract.bug_hunts import BugHuntConfig, HuntItem
from counterpose_core.contract.failure_criteria import Criterion
from counterpose_core.contract.runs import Run
from counterpose_core.contract.samples import SampleResult
from counterpose_core.contract.transfers import (
    TransferConfig,
    TransferCreate,
    TransferInstruction,
    TransferPhase,
)
from counterpose_core.errors import InvalidRequest, NotFound, RunNotEnded
from counterpose_core.types import FINAL_RUN_STATES
from counterpose_gateway.records.items import Plan, PlannedItem, numbered
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.recorded import recorded_config
from counterpose_gateway.runs.submission import require_quota
from counterpose_gateway.steps.adversarial_images import select_images, thresholds_of
from counterpose_gateway.steps.classifiers import check_classifiers
from counterpose_gateway.steps.failed_samples import count_failures, label_threshold
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


@dataclass(frozen=True)
class FoolingImage:
    """An image, what it shows, its prompt, and the classifiers that it fools; none for a label alone."""

    image: str
    label: str
    prompt: str
    fools: tuple[str, ...] = ()


@dataclass
class FoolingImages:
    """What a transfer needs of the run that it is about."""

    rows: Sequence[str]
    classes: Sequence[str]
    parents: Mapping[str, str]
    """Those of its request."""
    criterion: Criterion
    fooling: list[FoolingImage] = field(default_factory=list)
    baseline: list[FoolingImage] = field(default_factory=list)


def fooling_images(run: Run, ledger: Ledger) -> FoolingImages:
    """Read an ended adversarial dataset or bug hunt."""
    if run.kind == "bug-hunt":
        return _of_hunt(recorded_config(BugHuntConfig, run), list(ledger.items.of(run.id, HuntItem)))
    config = recorded_config(AdversarialDatasetConfig, run)
    return _of_dataset(config, list(ledger.items.of(run.id, AdversarialItem)))


def _of_dataset(config: AdversarialDatasetConfig, items: Sequence[AdversarialItem]) -> FoolingImages:
    told = [(item, item.instruction.phase) for item in items if item.instruction is not None]
    baseline = [item for item, phase in told if phase == "baseline"]
    samples = [item for item, phase in told if phase == "sample"]
    request = config.request
    found = FoolingImages(request.classifiers, config.classes, request.parents, request.criterion)
    for item in select_images(config, samples, thresholds_of(config, baseline)).kept:
        if (result := item.result) is not None:
            fools = tuple(spec for spec in request.classifiers if result.failed.get(spec))
            found.fooling.append(_image(item.label, result, fools))
    found.baseline = _alone((item.label, item.result) for item in baseline)
    return found


def _of_hunt(config: BugHuntConfig, items: Sequence[HuntItem]) -> FoolingImages:
    """Held-out images of descriptions alone: those of discovery were chosen again and again."""
    request = config.request
    found = FoolingImages(request.classifiers, config.classes, request.parents, request.criterion)
    alone: list[tuple[str, SampleResult | None]] = []
    for label in request.labels:
        told = [(item, item.instruction) for item in items if item.label == label]
        of_label = [(item, each) for item, each in told if each is not None]
        baseline = [item for item, each in of_label if each.phase == "baseline"]
        held_out = [(item, each) for item, each in of_label if each.phase == "held-out"]
        described = [item for item, each in held_out if each.hypothesis is not None]
        threshold = label_threshold(baseline).threshold
        fools: dict[str, list[str]] = {}
        results: dict[str, SampleResult] = {}
        for spec in request.classifiers:
            for item in count_failures(described, spec, threshold).failures:
                if item.result is not None:
                    fools.setdefault(item.id, []).append(spec)
                    results[item.id] = item.result
        found.fooling += [_image(label, results[name], tuple(specs)) for name, specs in fools.items()]
        alone += [(label, item.result) for item in baseline]
        alone += [(label, item.result) for item, each in held_out if each.hypothesis is None]
    found.baseline = _alone(alone)
    return found


def _image(label: str, result: SampleResult, fools: tuple[str, ...] = ()) -> FoolingImage:
    return FoolingImage(result.image, label, result.prompt or "", fools)


def _alone(results: Iterable[tuple[str, SampleResult | None]]) -> list[FoolingImage]:
    """Each image once, however often it was drawn."""
    found = {(label, each.image): _image(label, each) for label, each in results if each is not None}
    return list(found.values())
