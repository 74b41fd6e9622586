"""Plan a shift benchmark: list every image of every class, condition and image source in advance."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from counterpose_core.contract.dataset_interfaces import DatasetInterfaceConfig, TokenItem
from counterpose_core.contract.datasets import Dataset
from counterpose_core.contract.runs import Run
from counterpose_core.contract.shift_benchmarks import (
    CATALOGUE,
    RetrievalManifest,
    ShiftBenchmarkConfig,
    ShiftBenchmarkCreate,
)
from counterpose_core.errors import InvalidRequest, NotFound
from counterpose_core.shift_benchmark.shifts import catalogue
from counterpose_core.suite import Suite
from counterpose_core.tasks import task_of
from counterpose_core.text.near_names import did_you_mean
from counterpose_core.types import FINAL_RUN_STATES, BlobRef
from counterpose_gateway.methods.shift_benchmark.cells import examples, plan_items
from counterpose_gateway.methods.shift_benchmark.datasets import (
    InputDatasets,
    check_datasets,
    conditions,
    datasets_of,
    pointer,
)
from counterpose_gateway.methods.shift_benchmark.images import retrieval_manifest
from counterpose_gateway.records.items import Plan, PlannedItem
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.large_plans import PlanInputs
from counterpose_gateway.runs.submission import named_dataset, require_quota
from counterpose_gateway.services.ports import Services
from counterpose_gateway.steps.classifiers import check_classifiers, describe_classifiers
from counterpose_gateway.steps.generation import generation_of
from counterpose_gateway.version import VERSIONS

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger


async def plan(create: ShiftBenchmarkCreate, context: RunContext) -> Plan:
    """Plan a shift benchmark on the dataset interface that the request names.

    Raises:
        QuotaExceeded: it would have more items than a run may.
        NotFound, UnknownDataset: the interface or a named dataset does not exist.
        DatasetEmpty, UnknownModel, ClassMapMismatch, PromptTooLong, InvalidRequest: see `plan_benchmark`.
    """
    interface, dataset, inputs = await asyncio.to_thread(_read, create, context)
    retrieval, inputs = await _retrieval(create, inputs, context)
    config, items = await plan_benchmark(
        create,
        interface=interface,
        dataset=dataset,
        inputs=inputs,
        retrieval=retrieval,
        suite=context.suite,
        services=context.services,
    )
    read = {name: len(sources) for name, sources in inputs.sources.items()}
    config = config.model_copy(update={"policy_words": list(context.policy.phrases)})
    return Plan(dataset.name, config, items, sources=read)


def rest_of_plan(run: Run, inputs: PlanInputs, first: int) -> Iterator[PlannedItem]:
    """Plan the images of a run again, from the ordinal ``first`` on.

    Raises:
        InternalError: sources that the plan was made from no longer exist.
    """
    config = ShiftBenchmarkConfig.model_validate(run.resolved_config)
    read = InputDatasets(run.dataset, {name: inputs.sources(name) for name in inputs.counts})
    return plan_items(config, examples(config.classes, read.sources[run.dataset]), read, first=first)


@dataclass(frozen=True, kw_only=True)
class LearnedInterface:
    """The parts of a dataset interface that a benchmark uses: classes, tokens so far, whether it ended."""

    run_id: str
    dataset: str
    classes: Sequence[str]
    tokens: Mapping[str, BlobRef]
    ended: bool


def most_items(create: ShiftBenchmarkCreate, classes: int, real_images: int) -> int:
    """Return an upper bound of the run's items, from the request and two counts alone."""
    shifts = len(catalogue().shifts) if create.shifts == CATALOGUE else len(create.shifts)
    own = sum(map(len, create.class_shifts.values()))
    generated = (classes * (1 + shifts) + own) * create.n * len(create.image_sources)
    return generated + min(classes * create.real, real_images)


async def plan_benchmark(
    create: ShiftBenchmarkCreate,
    *,
    interface: LearnedInterface,
    dataset: Dataset,
    inputs: InputDatasets,
    retrieval: RetrievalManifest | None,
    suite: Suite,
    services: Services,
) -> tuple[ShiftBenchmarkConfig, Iterator[PlannedItem]]:
    """Resolve the request and plan its items: real images first, then condition by condition.

    Raises:
        InvalidRequest: the interface is still learning, or lacks a class or its token; a shift is invalid,
            or two have the same name; the editor has no such scheduler; an image source has no images.
        PromptTooLong: a prompt has more words than any text encoder reads.
        DatasetEmpty: a dataset named for images has no image of these classes.
        UnknownModel, ClassMapMismatch: a classifier does not exist, or does not know the dataset's classes.
    """
    classes, missing = _classes(create, interface)
    shifts = conditions(create, classes, suite.scorer)
    # In threads: of 100,000 images each takes a second, and nobody else would be answered meanwhile.
    await asyncio.to_thread(check_datasets, create, classes, shifts, inputs)
    shown = await asyncio.to_thread(examples, classes, inputs.sources[dataset.name])
    task_of(create.task, dataset.classes)
    listed = await check_classifiers(
        create.classifiers, dataset.classes, shown[classes[0]], services, label_map=create.label_map
    )
    zoo = await describe_classifiers(create.classifiers, listed, services)
    config = ShiftBenchmarkConfig(
        request=create,
        suite=suite.name,
        dataset=dataset.name,
        dataset_digest=dataset.digest,
        generation=generation_of(suite.editor, suite.editor.generation, create),
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
        groups=inputs.groups,
    )
    return config, plan_items(config, shown, inputs)


def _classes(create: ShiftBenchmarkCreate, interface: LearnedInterface) -> tuple[list[str], list[str]]:
    """The classes to benchmark, and the interface's classes that are left out because they have no token."""
    by_token = "token" in create.image_sources
    if create.classes is None:
        if not interface.ended:
            raise InvalidRequest(
                f"the interface {interface.run_id!r} is still learning: wait for it, or name classes",
                pointer="/interface",
            )
        missing = [name for name in interface.classes if by_token and name not in interface.tokens]
        left = [name for name in interface.classes if name not in missing]
        if not left:
            raise InvalidRequest(
                f"the interface {interface.run_id!r} has no token; check its report", pointer="/interface"
            )
        return left, missing
    for index, name in enumerate(create.classes):
        if name not in interface.classes:
            meant = did_you_mean(name, interface.classes)
            raise InvalidRequest(
                f"the interface has no class {name!r}{meant}", pointer=pointer("classes", index)
            )
        if by_token and name not in interface.tokens:
            raise InvalidRequest(
                f"the interface has no token for {name!r}", pointer=pointer("classes", index)
            )
    return list(create.classes), []


def _read(
    create: ShiftBenchmarkCreate, context: RunContext
) -> tuple[LearnedInterface, Dataset, InputDatasets]:
    run, config = _interface(create.interface, context.ledger)
    dataset = named_dataset(run.dataset, "/interface", context.ledger)
    named = {name: named_dataset(name, place, context.ledger) for name, place in datasets_of(create).items()}
    # Multiplied out before anything is read: too large a plan would not fit into memory.
    real = named.get(create.validation or "", dataset).n_sources
    require_quota(most_items(create, len(create.classes or config.classes), real), context, "/n")
    tokens = {
        item.label: item.result.token
        for item in context.ledger.items.of(run.id, TokenItem)
        if item.state == "done" and item.result is not None
    }
    interface = LearnedInterface(
        run_id=run.id,
        dataset=run.dataset,
        classes=config.classes,
        tokens=tokens,
        ended=run.state in FINAL_RUN_STATES,
    )
    sources = {name: context.ledger.datasets.sources(name) for name in (dataset.name, *named)}
    return interface, dataset, InputDatasets(dataset.name, sources)


async def _retrieval(
    create: ShiftBenchmarkCreate, inputs: InputDatasets, context: RunContext
) -> tuple[RetrievalManifest | None, InputDatasets]:
    """The images to retrieve from, and the datasets with that of them, whose groups count, too."""
    if create.retrieval is None:
        return None, inputs
    dataset = await asyncio.to_thread(named_dataset, create.retrieval, "/retrieval", context.ledger)
    sources = await asyncio.to_thread(context.ledger.datasets.sources, create.retrieval)
    manifest = await retrieval_manifest(dataset, sources, context.store)
    return manifest, replace(inputs, sources={**inputs.sources, dataset.name: sources})


def _interface(run_id: str, ledger: Ledger) -> tuple[Run, DatasetInterfaceConfig]:
    try:
        run = ledger.runs.get(run_id, "dataset-interface")
    except NotFound as error:
        error.pointer = "/interface"
        raise
    return run, DatasetInterfaceConfig.model_validate(run.resolved_config)
