"""Makes items through the product's own pipeline, against the services of a stack."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from tqdm import tqdm

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.runs import ItemResult, Provenance
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.errors import CounterposeError, error_for
from counterpose_gateway.methods.stress_test.process import process
from counterpose_gateway.records.items import LeasedGroup, LeasedItem, PlannedItem
from counterpose_gateway.records.outcomes import Done, Failed
from counterpose_gateway.records.outcomes import Outcome as WorkOutcome
from counterpose_gateway.runs.stores import Store
from counterpose_gateway.services.clients import calling_services, services_of
from counterpose_gateway.services.ports import Services
from counterpose_gateway.settings import GatewaySettings

from .bank import Outcome, without_predictions

AT_ONCE = 12
"""Groups that are made at once: the services of one machine batch about as many."""
ATTEMPTS = 3


class Outcomes:
    """Keeps what a method records of its items, by their keys."""

    def __init__(self) -> None:
        self.kept: dict[str, Outcome] = {}
        self.errors: dict[str, CounterposeError] = {}

    async def ended(self, outcomes: Sequence[tuple[LeasedItem, WorkOutcome]]) -> None:
        """Keep results and why items were dropped; an item that failed is tried again."""
        for item, outcome in outcomes:
            if isinstance(outcome, Failed):
                self.errors[item.item_key] = error_for(outcome.code, outcome.detail)
            elif isinstance(outcome, Done):
                self.kept[item.item_key] = Outcome(state="done", result=_bare(outcome.result))
            else:
                self.kept[item.item_key] = Outcome(
                    state="filtered",
                    reason=outcome.reason,
                    detail=outcome.detail,
                    result=_bare(outcome.result),
                )

    async def cancelled(self) -> bool:
        """Go on: nobody cancels."""
        return False


def _bare(result: Provenance | None) -> ItemResult | None:
    assert result is None or isinstance(result, ItemResult)
    return without_predictions(result)


def make(
    planned: Sequence[PlannedItem], config: StressTestConfig, settings: GatewaySettings
) -> dict[str, Outcome]:
    """The outcome of each item, by its key, from the services behind ``settings``.

    Raises:
        CounterposeError: the services failed an item three times.
    """
    return asyncio.run(_made(planned, config, settings))


async def _made(
    planned: Sequence[PlannedItem], config: StressTestConfig, settings: GatewaySettings
) -> dict[str, Outcome]:
    async with calling_services(settings) as caller:
        return await made_by(services_of(caller), BlobStore(settings.store_url), planned, config)


async def made_by(
    services: Services, store: Store, planned: Sequence[PlannedItem], config: StressTestConfig
) -> dict[str, Outcome]:
    """The outcome of each item, by its key; items of one source are made together.

    Raises:
        CounterposeError: the services failed an item three times.
    """
    # The predictions are left to `Answers`: one classifier is the fewest that a request may name.
    request = config.request.model_copy(update={"classifiers": config.request.classifiers[:1]})
    sent = config.model_copy(update={"request": request}).model_dump(mode="json")
    outcomes = Outcomes()
    for attempt in range(1, ATTEMPTS + 1):
        outcomes.errors.clear()
        if not (left := [item for item in planned if item.item_key not in outcomes.kept]):
            break
        await _attempt(left, attempt, sent, services, outcomes, store)
    return outcomes.kept | {key: _failed(error) for key, error in outcomes.errors.items()}


def _failed(error: CounterposeError) -> Outcome:
    """The outcome of an item that failed every time, as where no model takes its caption.

    Raises:
        CounterposeError: it is an error of the services, which another time may not have.
    """
    if error.retryable:
        raise error
    return Outcome(state="failed", code=error.code, detail=error.detail)


async def _attempt(
    planned: Sequence[PlannedItem],
    attempt: int,
    config: Mapping[str, Any],
    services: Services,
    outcomes: Outcomes,
    store: Store,
) -> None:
    groups: dict[str, list[PlannedItem]] = {}
    for item in planned:
        groups.setdefault(item.item_group, []).append(item)
    free = asyncio.Semaphore(AT_ONCE)
    with tqdm(total=len(planned), desc="items", leave=False) as bar:

        async def work(name: str, items: Sequence[PlannedItem]) -> None:
            async with free:
                group = _leased(name, items, attempt, config)
                await process(group, services=services, record=outcomes, store=store)
                bar.update(len(items))

        await asyncio.gather(*(work(name, items) for name, items in groups.items()))


def _leased(name: str, items: Sequence[PlannedItem], attempt: int, config: Mapping[str, Any]) -> LeasedGroup:
    leased = [LeasedItem(**vars(item), id=item.item_key, fence=attempt, attempt=attempt) for item in items]
    return LeasedGroup(run_id="bank", kind="stress-test", config=config, item_group=name, items=leased)
