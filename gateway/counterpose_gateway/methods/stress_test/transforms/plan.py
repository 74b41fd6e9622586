"""Plan the operations of a stress test: resolve the choice, leave out what cannot be done, list the items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

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
)
"""Fields of a request that only edits of captions read; a number of edits may also be 0."""


def with_operations(create: StressTestCreate, suite: Suite) -> StressTestCreate:
    """Return the request with the operations of a suite that has nothing else, in the place of edits.

    Of a suite with both, a request has the operations that it names, beside the edits that it has.

    Raises:
        InvalidRequest: operations are asked for of a suite without them, or alone with a field that they do
            not read.
    """
    own, edits = suite.transforms, "captioner" in suite.services
    adaptive = create.transforms is not None and create.transforms.severity == "adaptive"
    if adaptive and edits and create.edits_captions:
        raise InvalidRequest(
            "severity 'adaptive' is for runs of operations alone, and this one edits captions, too; ask for "
            "'grid', or leave the edits out: max_edits_per_image and lance_r_edits_per_image 0",
            pointer="/transforms/severity",
        )
    if create.transforms is not None and own is None:
        raise InvalidRequest(
            f"the suite {suite.name!r} has no operations on images; start one that has: counterpose up "
            "--suite photographs",
            pointer="/transforms",
        )
    if own is None or (edits and (create.transforms is None or create.edits_captions)):
        return create
    unread = [name for name in CAPTIONED if not _is_unset(create, name)]
    if unread:
        raise InvalidRequest(
            f"{unread[0]} is for edits of captions, and the request has none; leave it out, or ask for edits"
            if edits
            else f"{unread[0]} is for edits of captions, and the suite {suite.name!r} makes none; leave it "
            "out, or start a suite with a captioner: counterpose up --suite miniature",
            pointer=f"/{unread[0]}",
        )
    return create.model_copy(
        update={
            "transforms": create.transforms or TransformChoice(size=own.size),
            "max_edits_per_image": 0,
            "lance_r_edits_per_image": 0,
        }
    )


def background_dataset(create: StressTestCreate) -> str | None:
    """The dataset whose photographs become backgrounds, if it is another one than the run's."""
    named = None if create.transforms is None else create.transforms.backgrounds
    return None if named == create.dataset else named


def backgrounds_of(create: StressTestCreate, context: RunContext) -> SourceTable | None:
    """Return the photographs of another dataset that stand behind objects, if the request names one.

    Raises:
        UnknownDataset, DatasetEmpty: it does not exist, or holds no image.
    """
    name = background_dataset(create)
    if name is None:
        return None
    if not named_dataset(name, "/transforms/backgrounds", context.ledger).n_sources:
        raise DatasetEmpty(f"dataset {name!r} holds no image", pointer="/transforms/backgrounds")
    return context.ledger.datasets.table(name)


def _is_unset(create: StressTestCreate, name: str) -> bool:
    value = getattr(create, name)
    # A resolved request, which Reproduce repeats, has no edits.
    return value == StressTestCreate.model_fields[name].get_default() or (
        name.endswith("per_image") and not value
    )


def resolved(
    choice: TransformChoice, own: TransformsSuite, segmenter: SegmenterSuite | None = None
) -> TransformPlan:
    """Return the operations with their levels, whether the images have what they take or not.

    Raises:
        InvalidRequest: an operation does not exist.
    """
    rows = [operation(name) for name in choice.operations or own.operations]
    levels = choice.levels or (list(own.levels) if choice.severity is None else list(range(1, LEVELS + 1)))
    severity = None
    if choice.severity is not None:
        severity = SeverityPlan(plan=choice.severity, loss=choice.severity_loss, full_share=1.0)
    return TransformPlan(
        operations={row.name: _levels(row, levels) for row in rows},
        size=choice.size,
        segmenter=None if segmenter is None or choice.masks == "own" else segmenter.model,
        severity=severity,
    )


def _levels(row: Operation, levels: list[int]) -> list[int]:
    return sorted(levels) if row.levels > 1 else [1]


async def completed(
    plan: TransformPlan,
    create: StressTestCreate,
    classes: Sequence[str],
    sources: SourceTable,
    backgrounds: SourceTable | None,
    services: Services,
) -> TransformPlan:
    """Return the plan with what images and classifiers say to it.

    Raises:
        InvalidRequest, UnknownModel: as `fitted` and `further_classes`.
    """
    choice = create.transforms or TransformChoice()
    others = await further_classes(create, classes, services)
    left = await off_loop(sources, fitted, plan, choice, classes, sources, backgrounds)
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
    config: StressTestConfig, sources: SourceTable, backgrounds: SourceTable | None, first: int = 0
) -> Iterator[PlannedItem]:
    """Plan one item of each image, from the ordinal ``first`` on; arguments as of `fitted`."""
    if config.transforms is None:
        raise InternalError("the run has no operations")
    materials = Materials(config.transforms, config.request.seed, sources, backgrounds)
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
            instruction=materials.of(source).instruction,
        )


_HASHED: dict[str, Any] = {
    "request": {"dataset", "classifiers", "label_map", "seed"},
    "suite": True,
    "transforms": True,
    "models": True,
    "dataset_digest": True,
    "classes": True,
}
_WORDS: dict[str, Any] = {"transforms": {"scaled"}}
"""What a plan says that changes no image and no answer."""
