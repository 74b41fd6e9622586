"""From a request for a run to a durable, planned run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from faultline_core.contract.dataset_interfaces import DatasetInterfaceCreate
from faultline_core.contract.datasets import Dataset
from faultline_core.contract.runs import Run
from faultline_core.contract.stress_tests import StressTestCreate
from faultline_core.errors import ClassMapMismatch, QuotaExceeded, UnknownDataset
from faultline_core.texts import twins
from faultline_core.types import RunKind
from faultline_gateway.idempotency import fingerprint
from faultline_gateway.ledger import Ledger
from faultline_gateway.parts import GatewayParts
from faultline_gateway.work_items import PlannedItem, RunConfig
from faultline_gateway.workflows.dataset_interface import plan_interface
from faultline_gateway.workflows.planning import items_per_source
from faultline_gateway.workflows.stress_test import plan


@dataclass(frozen=True)
class Plan:
    """A run as it was planned, before it is stored."""

    kind: RunKind
    dataset: str
    config: RunConfig
    items: Sequence[PlannedItem]


async def store_once(
    create: BaseModel, parts: GatewayParts, key: str | None, plan_it: Callable[[], Awaitable[Plan]]
) -> Run:
    """Plan the run and store it with all its items; a key that made a run before returns that run.

    Raises:
        IdempotencyConflict: the key was used with another body.
    """
    # Looked up before planning: a repetition must not depend on services that are away by now.
    seal = fingerprint(create)
    run_id = None if key is None else await asyncio.to_thread(parts.ledger.run_for_key, key, seal)
    if run_id is None:
        planned = await plan_it()
        run_id = await asyncio.to_thread(
            parts.ledger.create_run,
            kind=planned.kind,
            dataset=planned.dataset,
            config=planned.config.model_dump(mode="json"),
            items=planned.items,
            fingerprint=seal,
            idempotency_key=key,
        )
    return await asyncio.to_thread(parts.ledger.run, run_id)


async def submit(create: StressTestCreate, parts: GatewayParts, key: str | None) -> Run:
    """Plan a stress test and store it.

    Raises:
        IdempotencyConflict: the key was used with another body.
        QuotaExceeded: it would have more items than a run may.
        UnknownDataset, DatasetEmpty, UnknownModel, ClassMapMismatch, InvalidRequest: it cannot be planned.
    """

    async def plan_it() -> Plan:
        dataset = await asyncio.to_thread(named_dataset, create.dataset, "/dataset", parts.ledger)
        # By multiplication and before anything is read: the plan of such a run would not fit into memory.
        sources = min(dataset.n_sources, create.limit or dataset.n_sources)
        require_quota(sources * items_per_source(create), parts, "/limit")
        _require_told_apart(dataset)
        listed = await asyncio.to_thread(parts.ledger.sources, create.dataset)
        config, items = await plan(
            create, dataset=dataset, sources=listed, suite=parts.suite, services=parts.services
        )
        return Plan("stress-test", dataset.name, config, items)

    return await store_once(create, parts, key, plan_it)


async def submit_interface(create: DatasetInterfaceCreate, parts: GatewayParts, key: str | None) -> Run:
    """Plan a dataset interface and store it.

    Raises:
        IdempotencyConflict: the key was used with another body.
        QuotaExceeded: it would have more classes than a run may have items.
        UnknownDataset, DatasetEmpty, ClassMapMismatch, InvalidRequest: it cannot be planned.
    """

    def plan_it() -> Plan:
        dataset = named_dataset(create.dataset, "/dataset", parts.ledger)
        require_quota(len(create.classes or dataset.classes), parts, "/classes")
        sources = parts.ledger.sources(create.dataset)
        config, items = plan_interface(
            create, dataset=dataset, sources=sources, suite=parts.suite, store=parts.store
        )
        return Plan("dataset-interface", dataset.name, config, items)

    return await store_once(create, parts, key, lambda: asyncio.to_thread(plan_it))


def named_dataset(name: str, pointer: str, ledger: Ledger) -> Dataset:
    """Return the dataset that a request names.

    Raises:
        UnknownDataset: there is none; the pointer is the caller's.
    """
    try:
        return ledger.dataset(name)
    except UnknownDataset as error:
        error.pointer = pointer
        raise


def require_quota(wanted: int, parts: GatewayParts, pointer: str) -> None:
    """Refuse a run of more items than the settings allow.

    Raises:
        QuotaExceeded: it is one; the pointer is the caller's.
    """
    if wanted > (most := parts.settings.max_items_per_run):
        raise QuotaExceeded(f"the run would have {wanted} items, more than {most}", pointer=pointer)


def _require_told_apart(dataset: Dataset) -> None:
    if alike := twins(dataset.classes):
        raise ClassMapMismatch(
            f"nobody can tell {alike[0]!r} from {alike[1]!r} of {dataset.name!r}", pointer="/dataset"
        )
