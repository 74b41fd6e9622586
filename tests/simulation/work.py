"""The method of the simulated runs: an image of each item, as slowly and as badly as a service may do it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.runs import ItemResult, Run, RunItem
from counterpose_core.contract.spending import Spent
from counterpose_core.errors import BackendUnavailable, InvalidRequest
from counterpose_gateway.records.items import LeasedGroup, LeasedItem, PlannedItem, Recorder
from counterpose_gateway.runs.attempt import OpenItems, finish_group
from counterpose_gateway.runs.method import AnyMethod
from counterpose_gateway.runs.stages import StagePlan
from counterpose_gateway.services.ports import Services
from fakes.methods import method_of
from fakes.staged_runs import items_of_stage
from simulation.faults import Faults
from simulation.processes import PROCESS

STAGES = 3
ONE = Spent(calls=1, images=1)


def image_of(item_key: str) -> bytes:
    """Return the image of an item: the same at every attempt, on every worker."""
    return f"image of {item_key}".encode()


def stamp(worker: str, fence: int) -> str:
    """Return what a result says of the lease that it was made under."""
    return f"{worker} {fence}"


class SimulatedMethod:
    """Makes an image of each item; items with certain keys are filtered, fail, or end their worker."""

    def __init__(self, faults: Faults, asked: Counter[str]) -> None:
        """``asked``: how many images a server was asked for in a run."""
        self._faults, self._asked = faults, asked

    async def process(
        self, group: LeasedGroup, *, services: Services, record: Recorder, store: BlobStore
    ) -> None:
        """Give each item its outcome."""
        attempt = OpenItems(group, services, record, store)
        await finish_group(attempt, group, self._work(attempt, store))

    def rest_of_plan(self, run: Run, inputs: object, first: int) -> Iterator[PlannedItem]:
        """Yield the items of the first stage from a place on."""
        return islice(first_items(run.resolved_config["request"]["seed"]), first, None)

    def next_stage(self, run: Run, results: Iterator[RunItem[ItemResult]]) -> StagePlan | None:
        """Plan as many items as were made; the second stage is empty where none was."""
        if run.stage >= STAGES:
            return None
        made = [each.ordinal for each in results if each.state == "done" and each.stage == run.stage]
        return StagePlan(items_of_stage((f"stage-{run.stage + 1}-{each}" for each in made), per_source=2))

    async def _work(self, attempt: OpenItems, store: BlobStore) -> None:
        for item in attempt.open:
            async with attempt.fail_items_on_error([item]):
                result = await attempt.calls.call("editor", lambda made: self._edit(made, store), item)
                if item.item_key.endswith("5"):
                    await attempt.filtered(item, "edit-not-visible", result=result)
                else:
                    await attempt.done(item, result)

    async def _edit(self, item: LeasedItem, store: BlobStore) -> ItemResult:
        process, run_id = PROCESS.get(), item.id.rpartition(".")[0]
        assert process.accounts is not None
        call = await process.accounts.reserve(run_id, "editor", ONE)
        self._asked[run_id] += 1
        slow = self._faults.occurs("service is slow", 0.1)
        await asyncio.sleep(self._faults.seconds(5.0, 40.0) if slow else self._faults.seconds(0.05, 2.0))
        await process.going_on()
        poison = self._faults.has_poison and item.item_key.endswith("3")
        if poison or self._faults.occurs("worker dies at an item", 0.02):
            process.kill()
        if self._faults.occurs("service fails", 0.05):
            raise BackendUnavailable("the editor is not at hand")
        if item.item_key.endswith("7"):
            raise InvalidRequest("the editor refuses this item")
        await process.accounts.settle(run_id, call, ONE)
        ref = await asyncio.to_thread(store.put, image_of(item.item_key))
        return ItemResult(image=ref, caption=stamp(process.name, item.fence))


def first_items(many: int) -> Iterator[PlannedItem]:
    """Yield the items of a run's first stage."""
    return items_of_stage((f"first-{number}" for number in range(many)), per_source=3)


def as_method(method: SimulatedMethod) -> AnyMethod:
    """Return the method as the worker's table holds it; its requests and reports are not asked for."""
    return method_of(
        "stress-test",
        process=method.process,
        rest_of_plan=method.rest_of_plan,
        next_stage=method.next_stage,
    )
