"""From a request for a stress test to a durable, planned run."""

from __future__ import annotations

import asyncio

from faultline_core.contract.datasets import Dataset
from faultline_core.contract.runs import Run
from faultline_core.contract.stress_tests import StressTestCreate
from faultline_core.errors import ClassMapMismatch, QuotaExceeded
from faultline_core.texts import twins
from faultline_gateway.idempotency import fingerprint
from faultline_gateway.parts import GatewayParts
from faultline_gateway.workflows.planning import items_per_source
from faultline_gateway.workflows.stress_test import plan


async def submit(create: StressTestCreate, parts: GatewayParts, key: str | None) -> Run:
    """Plan the run and store it with all its items; a key that made a run before returns that run.

    Raises:
        IdempotencyConflict: the key was used with another body.
        QuotaExceeded: it would have more items than a run may.
        UnknownDataset, DatasetEmpty, UnknownModel, ClassMapMismatch, InvalidRequest: it cannot be planned.
    """
    # Looked up before planning: a repetition must not depend on services that are away by now.
    seal = fingerprint(create)
    known = None if key is None else await asyncio.to_thread(parts.ledger.run_for_key, key, seal)
    run_id = known or await _plan_and_store(create, parts, key, seal)
    return await asyncio.to_thread(parts.ledger.run, run_id)


async def _plan_and_store(create: StressTestCreate, parts: GatewayParts, key: str | None, seal: str) -> str:
    dataset = await asyncio.to_thread(parts.ledger.dataset, create.dataset)
    _require_quota(create, dataset, parts.settings.max_items_per_run)
    if alike := twins(dataset.classes):
        raise ClassMapMismatch(
            f"nobody can tell {alike[0]!r} from {alike[1]!r} of {dataset.name!r}", pointer="/dataset"
        )
    sources = await asyncio.to_thread(parts.ledger.sources, create.dataset)
    config, items = await plan(
        create, dataset=dataset, sources=sources, suite=parts.suite, services=parts.services
    )
    return await asyncio.to_thread(
        parts.ledger.create_run,
        kind="stress-test",
        dataset=dataset.name,
        config=config.model_dump(mode="json"),
        items=items,
        fingerprint=seal,
        idempotency_key=key,
    )


def _require_quota(create: StressTestCreate, dataset: Dataset, most: int) -> None:
    # By multiplication and before anything is read: the plan of such a run would not fit into memory.
    sources = min(dataset.n_sources, create.limit or dataset.n_sources)
    if (wanted := sources * items_per_source(create)) > most:
        raise QuotaExceeded(f"the run would have {wanted} items, more than {most}", pointer="/limit")
