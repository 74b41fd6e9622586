"""From a request for a shift benchmark to a durable, planned run."""

from __future__ import annotations

import asyncio

from faultline_core.contract.dataset_interfaces import DatasetInterfaceConfig, TokenItem
from faultline_core.contract.datasets import Dataset
from faultline_core.contract.runs import Run
from faultline_core.contract.shift_benchmarks import RetrievalManifest, ShiftBenchmarkCreate
from faultline_core.errors import NotFound
from faultline_core.types import FINAL_RUN_STATES
from faultline_gateway.ledger import Ledger
from faultline_gateway.parts import GatewayParts
from faultline_gateway.submission import Plan, named_dataset, require_quota, store_once
from faultline_gateway.workflows.benchmark_planning import LearnedInterface, most_items
from faultline_gateway.workflows.brought_pictures import BroughtPictures, datasets_of
from faultline_gateway.workflows.found_pictures import retrieval_manifest
from faultline_gateway.workflows.shift_benchmark import plan_benchmark


async def submit_benchmark(create: ShiftBenchmarkCreate, parts: GatewayParts, key: str | None) -> Run:
    """Plan a shift benchmark and store it.

    Raises:
        IdempotencyConflict: the key was used with another body.
        QuotaExceeded: it would have more items than a run may.
        NotFound, UnknownDataset, DatasetEmpty, UnknownModel, ClassMapMismatch, PromptTooLong,
            InvalidRequest: it cannot be planned.
    """

    async def plan_it() -> Plan:
        interface, dataset, brought = await asyncio.to_thread(_read, create, parts)
        retrieval = await _retrieval(create, parts)
        config, items = await plan_benchmark(
            create,
            interface=interface,
            dataset=dataset,
            brought=brought,
            retrieval=retrieval,
            suite=parts.suite,
            services=parts.services,
        )
        return Plan("shift-benchmark", dataset.name, config, items)

    return await store_once(create, parts, key, plan_it)


def _read(
    create: ShiftBenchmarkCreate, parts: GatewayParts
) -> tuple[LearnedInterface, Dataset, BroughtPictures]:
    run, config = _interface(create.interface, parts.ledger)
    dataset = parts.ledger.dataset(run.dataset)
    named = {name: named_dataset(name, place, parts.ledger) for name, place in datasets_of(create).items()}
    # By multiplication and before anything is read: the plan of such a run would not fit into memory.
    real = named.get(create.validation or "", dataset).n_sources
    require_quota(most_items(create, len(create.classes or config.classes), real), parts, "/n")
    tokens = {
        item.label: item.result.token
        for item in parts.ledger.items_of(run.id, TokenItem)
        if item.state == "done" and item.result is not None
    }
    interface = LearnedInterface(
        run_id=run.id,
        dataset=run.dataset,
        classes=config.classes,
        tokens=tokens,
        ended=run.state in FINAL_RUN_STATES,
    )
    sources = {name: parts.ledger.sources(name) for name in (dataset.name, *named)}
    return interface, dataset, BroughtPictures(dataset.name, sources)


async def _retrieval(create: ShiftBenchmarkCreate, parts: GatewayParts) -> RetrievalManifest | None:
    if create.retrieval is None:
        return None
    dataset = await asyncio.to_thread(named_dataset, create.retrieval, "/retrieval", parts.ledger)
    sources = await asyncio.to_thread(parts.ledger.sources, create.retrieval)
    return await retrieval_manifest(dataset, sources, parts.store)


def _interface(run_id: str, ledger: Ledger) -> tuple[Run, DatasetInterfaceConfig]:
    try:
        run = ledger.run(run_id, "dataset-interface")
    except NotFound as error:
        error.pointer = "/interface"
        raise
    return run, DatasetInterfaceConfig.model_validate(run.resolved_config)
