"""Plan the operations of a stress test: resolve the choice, leave out what cannot be done, list the items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from counterpose_core.blobs import cache_key
from counterpose_core.contract.classifiers import DescribeRequest
from counterpose_core.contract.severity import SeverityPlan
from counterpose_core.contract.stress_tests import StressTestConfig, StressTestCreate
from counterpose_core.contract.transforms import TransformChoice, TransformPlan
from counterpose_core.errors import DatasetEmpty, InternalError, InvalidRequest
from counterpose_core.stress_test.severity.draw import full_share
from counterpose_core.suite import SegmenterSuite, Suite, TransformsSuite
from counterpose_core.text.imagenet_hierarchy import class_key
from counterpose_core.transforms.table import LEVELS, Operation, operation
from counterpose_gateway.methods.stress_test.transforms.given import Pairs, pairs_of
from counterpose_gateway.methods.stress_test.transforms.material import Materials, fitted
from counterpose_gateway.records.items import PlannedItem
from counterpose_gateway.records.source_table import SourceTable
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.submission import named_dataset
from counterpose_gateway.services.ports import Services
from counterpose_gateway.steps.classifiers import placed
from counterpose_gateway.steps.off_loop import off_loop

CAPTIONED = (
    "edit_types",
    "interventions",
    "preset",
    "selection",
    "strength",
    "thresholds",
    "refused_words",
    "near_duplicates",
    "outside_suite",
    "confirm",
    "confirm_share",
    "max_edits_per_image",
    "lance_r_edits_per_image",
    "region",
)
"""Fields of a request that only edits of captions read; a number of edits may also be 0."""


def with_operations(create: StressTestCreate, suite: Suite) -> StressTestCreate:
    """Return the request with the operations of a suite that has nothing else, in the place of edits.

    Of a suite with both, a request has the operations that it names, beside the edits that it has. Given
    pairs are tested alone, in every suite.

    Raises:
        InvalidRequest: operations are asked for of a suite without them, or alone with a field that they do
            not read.
    """
    own, edits = suite.transforms, "captioner" in suite.services
    given = create.transforms is not None and create.transforms.pairs is not None
    adaptive = create.transforms is not None and create.transforms.severity == "adaptive"
    if adaptive and edits and create.edits_captions:
        raise InvalidRequest(
            "severity 'adaptive' is for runs of operations alone, and this one edits captions, too; ask for "
            "'grid', or leave the edits out: max_edits_per_image and lance_r_edits_per_image 0",
            pointer="/transforms/severity",
        )
    if create.transforms is not None and own is None and not given:
        raise InvalidRequest(
            f"the suite {suite.name!r} has no operations on images; start one that has: counterpose up "
            "--suite photographs",
            pointer="/transforms",
        )
    if not given and (own is None or (edits and (create.transforms is None or create.edits_captions))):
        return create
    unread = [name for name in CAPTIONED if not _is_unset(create, name)]
    if unread:
        raise InvalidRequest(
            f"{unread[0]} is for edits of captions, and {_why_unread(given, edits, suite.name)}",
            pointer=f"/{unread[0]}",
        )
    return create.model_copy(
        update={
            "transforms": create.transforms or TransformChoice(size=None if own is None else own.size),
            "max_edits_per_image": 0,
            "lance_r_edits_per_image": 0,
        }
    )


def _why_unread(given: bool, edits: bool, suite: str) -> str:
    if given:
        return "given pairs are tested alone; leave it out"
    if edits:
        return "the request has none; leave it out, or ask for edits"
    return (
        f"the suite {suite!r} makes none; leave it out, or start a suite with a captioner: counterpose up "
        "--suite miniature"
    )


def second_dataset(create: StressTestCreate) -> str | None:
    """The dataset with given pairs, or whose photographs become backgrounds if it is not the run's own."""
    choice = create.transforms or TransformChoice()
    return choice.pairs or (None if choice.backgrounds == create.dataset else choice.backgrounds)


def second_of(create: StressTestCreate, context: RunContext) -> SourceTable | None:
    """Return the images of the second dataset that a run takes, if the request names one.

    Raises:
        UnknownDataset, DatasetEmpty: it does not exist, or holds no image.
    """
    name = second_dataset(create)
    if name is None:
        return None
    field = "pairs" if create.transforms is not None and create.transforms.pairs else "backgrounds"
    if not named_dataset(name, f"/transforms/{field}", context.ledger).n_sources:
        raise DatasetEmpty(f"dataset {name!r} holds no image", pointer=f"/transforms/{field}")
    return context.ledger.datasets.table(name)


def joined(
    create: StressTestCreate, sources: SourceTable, second: SourceTable | None
) -> tuple[SourceTable, SourceTable | Pairs | None]:
    """Return the images of which pairs are given, and these; else all images and the second dataset.

    Raises:
        InvalidRequest: no pair can be tested.
    """
    if create.transforms is None or create.transforms.pairs is None or second is None:
        return sources, second
    pairs = pairs_of(sources, second, create.transforms.size)
    pairs.require(create.transforms.pairs)
    kept = [number for number in range(len(sources)) if sources.id(number) in pairs.materials]
    return sources.take(np.array(kept, dtype=np.intp)), pairs


def _is_unset(create: StressTestCreate, name: str) -> bool:
    value = getattr(create, name)
    # A resolved request, which Reproduce repeats, has no edits.
    return value == StressTestCreate.model_fields[name].get_default() or (
        name.endswith("per_image") and not value
    )


def resolved(
    choice: TransformChoice, own: TransformsSuite | None, segmenter: SegmenterSuite | None = None
) -> TransformPlan:
    """Return the operations with their levels, whether the images have what they take or not.

    Of given pairs, the changes follow from the images.

    Raises:
        InvalidRequest: an operation does not exist.
    """
    severity = None
    if choice.severity is not None:
        severity = SeverityPlan(plan=choice.severity, loss=choice.severity_loss, full_share=1.0)
    if choice.pairs is not None or own is None:
        return TransformPlan(operations={}, size=choice.size, severity=severity, least_loss=choice.least_loss)
    rows = [operation(name) for name in choice.operations or own.operations]
    levels = choice.levels or (list(own.levels) if choice.severity is None else list(range(1, LEVELS + 1)))
    return TransformPlan(
        operations={row.name: _levels(row, levels) for row in rows},
        size=choice.size,
        segmenter=None if segmenter is None or choice.masks == "own" else segmenter.model,
        severity=severity,
        least_loss=choice.least_loss,
    )


def _levels(row: Operation, levels: list[int]) -> list[int]:
    return sorted(levels) if row.levels > 1 else [1]


async def completed(
    plan: TransformPlan,
    create: StressTestCreate,
    classes: Sequence[str],
    sources: SourceTable,
    second: SourceTable | Pairs | None,
    services: Services,
) -> TransformPlan:
    """Return the plan with what images and classifiers say to it.

    Raises:
        InvalidRequest, UnknownModel: as `fitted` and `further_classes`.
    """
    choice = create.transforms or TransformChoice()
    others = await further_classes(create, classes, services)
    if isinstance(second, Pairs):
        left = second.plan(plan, choice.pairs or "", sources)
    else:
        left = await off_loop(sources, fitted, plan, choice, classes, sources, second)
    severity = left.severity
    if severity is not None and left.is_adaptive:
        share = full_share(sources.number_of_units())
        severity = severity.model_copy(update={"full_share": share})
    return left.model_copy(update={"others": others, "severity": severity})


async def further_classes(
    create: StressTestCreate, classes: Sequence[str], services: Services
) -> dict[str, list[str]]:
    """Return each classifier's own classes that are none of the dataset's, if it answers among these too.

    Raises:
        InvalidRequest: it does, and the classes of a classifier are not known.
        UnknownModel: a classifier does not exist.
    """
    if create.transforms is None or create.transforms.among == "dataset":
        return {}
    taken = {class_key(name) for name in classes}
    taken |= {class_key(name) for named in create.label_map.values() for name in named}
    found: dict[str, list[str]] = {}
    for at, spec in enumerate(create.classifiers):
        with placed(at):
            known = (await services.classifiers.describe(DescribeRequest(classifier=spec))).classes
        if known is None:
            raise InvalidRequest(
                f"the classes of the classifier {spec!r} are not known; let it answer among the dataset's",
                pointer="/transforms/among",
            )
        found[spec] = [name for name in known if class_key(name) not in taken]
    return found


def transform_items(
    config: StressTestConfig, sources: SourceTable, second: SourceTable | Pairs | None, first: int = 0
) -> Iterator[PlannedItem]:
    """Plan one item of each image, from the ordinal ``first`` on; arguments as of `materials_of`."""
    if config.transforms is None:
        raise InternalError("the run has no operations")
    materials = materials_of(config.transforms, config.request.seed, sources, second)
    hashed = cache_key(config=config.model_dump(mode="json", include=_HASHED, exclude=_WORDS))
    for ordinal, source in islice(enumerate(sources.rows(0)), first, None):
        yield PlannedItem(
            item_key=cache_key(source=source.id, object_class=source.label, kind="transforms", config=hashed),
            ordinal=ordinal,
            kind="transforms",
            item_group=source.id,
            source_image=source.image,
            label=source.label,
            caption=source.caption,
            labels=source.labels,
            instruction=materials.of(source).instruction,
        )


def materials_of(
    plan: TransformPlan, seed: int, sources: SourceTable, second: SourceTable | Pairs | None
) -> Materials | Pairs:
    """Return what each photograph of a run gives: to its operations, or in given pairs."""
    return second if isinstance(second, Pairs) else Materials(plan, seed, sources, second)


_HASHED: dict[str, Any] = {
    "request": {"dataset", "classifiers", "label_map", "task", "seed"},
    "suite": True,
    "transforms": True,
    "models": True,
    "dataset_digest": True,
    "classes": True,
}
_WORDS: dict[str, Any] = {"transforms": {"scaled", "least_loss"}}
"""What a plan says that changes no image and no answer."""
