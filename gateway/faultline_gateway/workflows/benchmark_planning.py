"""Planning of a shift benchmark: every picture of every class, condition and source, named beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from faultline_core.contract.datasets import Dataset
from faultline_core.contract.shift_benchmarks import (
    CATALOGUE,
    RetrievalManifest,
    ShiftBenchmarkConfig,
    ShiftBenchmarkCreate,
)
from faultline_core.errors import InvalidRequest
from faultline_core.shifts import catalogue
from faultline_core.suite import Suite
from faultline_core.types import BlobRef
from faultline_gateway.ports import Services
from faultline_gateway.work_items import PlannedItem
from faultline_gateway.workflows.asked_classifiers import check_classifiers, describe_classifiers
from faultline_gateway.workflows.benchmark_conditions import conditions, pointer
from faultline_gateway.workflows.benchmark_items import examples, plan_items
from faultline_gateway.workflows.brought_pictures import BroughtPictures, check_brought
from faultline_gateway.workflows.planning import VERSIONS


@dataclass(frozen=True, kw_only=True)
class LearnedInterface:
    """What a benchmark has of a dataset interface: its classes, the tokens so far, and whether it ended."""

    run_id: str
    dataset: str
    classes: Sequence[str]
    tokens: Mapping[str, BlobRef]
    ended: bool


def most_items(create: ShiftBenchmarkCreate, classes: int, real_pictures: int) -> int:
    """Return how many items the run has at most, from the request and two counts alone."""
    shifts = len(catalogue().shifts) if create.shifts == CATALOGUE else len(create.shifts)
    own = sum(map(len, create.class_shifts.values()))
    made = (classes * (1 + shifts) + own) * create.n * len(create.sources)
    return made + min(classes * create.real, real_pictures)


async def plan_benchmark(
    create: ShiftBenchmarkCreate,
    *,
    interface: LearnedInterface,
    dataset: Dataset,
    brought: BroughtPictures,
    retrieval: RetrievalManifest | None,
    suite: Suite,
    services: Services,
) -> tuple[ShiftBenchmarkConfig, list[PlannedItem]]:
    """Resolve the request and plan its items: real pictures first, then condition by condition.

    Raises:
        InvalidRequest: the interface goes on, has no such class or no token of it; a shift is none, or two
            are named alike; the editor knows no such scheduler; a source is asked for without its pictures.
        PromptTooLong: a prompt has more words than any text encoder reads.
        DatasetEmpty: a dataset that pictures are to be taken from has none of these classes.
        UnknownModel, ClassMapMismatch: a classifier does not exist, or does not know the dataset's classes.
    """
    classes, missing = _classes(create, interface)
    shifts = conditions(create, classes, suite.scorer)
    check_brought(create, classes, shifts, brought)
    shown = examples(classes, brought.sources[dataset.name])
    listed = await check_classifiers(create.classifiers, dataset.classes, shown[classes[0]], services)
    zoo = await describe_classifiers(create.classifiers, listed, services)
    config = ShiftBenchmarkConfig(
        request=create,
        suite=suite.name,
        dataset=dataset.name,
        dataset_digest=dataset.digest,
        generation=suite.editor.generation.changed_by(create),
        models={"editor": suite.editor.model, "scorer": suite.scorer.clip},
        versions=VERSIONS,
        classes=classes,
        labels=list(dataset.classes),
        shifts=shifts,
        tokens={name: interface.tokens.get(name) for name in classes},
        missing=missing,
        retrieval=retrieval,
        zoo=zoo,
        clip=suite.scorer.checkpoint or suite.scorer.clip,
        objectionable=suite.scorer.objectionable,
    )
    return config, plan_items(config, shown, brought)


def _classes(create: ShiftBenchmarkCreate, interface: LearnedInterface) -> tuple[list[str], list[str]]:
    """The classes to benchmark, and those of the interface that are left out for want of a token."""
    by_token = "token" in create.sources
    if create.classes is None:
        if not interface.ended:
            raise InvalidRequest(
                f"the interface {interface.run_id!r} is still learning: wait for it, or name classes",
                pointer="/interface",
            )
        missing = [name for name in interface.classes if by_token and name not in interface.tokens]
        left = [name for name in interface.classes if name not in missing]
        if not left:
            raise InvalidRequest(f"the interface {interface.run_id!r} has no token", pointer="/interface")
        return left, missing
    for index, name in enumerate(create.classes):
        if name not in interface.classes:
            raise InvalidRequest(f"the interface has no class {name!r}", pointer=pointer("classes", index))
        if by_token and name not in interface.tokens:
            raise InvalidRequest(f"the interface has no token of {name!r}", pointer=pointer("classes", index))
    return list(create.classes), []
