"""Concurrent calls of one engine method, merged into one call and split again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from counterpose_core.contract.base import MAX_BATCH, ModelIdentity, Outcome
from counterpose_core.types import Cost
from counterpose_services.batching.batcher import Batcher
from counterpose_services.batching.engine_thread import EngineThread

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
Value = TypeVar("Value")


class CostedResponse(Protocol[Value]):
    """The answer of an engine method: one outcome per item, the model, and the total cost."""

    @property
    def outcomes(self) -> list[Outcome[Value]]: ...
    @property
    def model(self) -> ModelIdentity: ...
    @property
    def cost(self) -> Cost: ...


@dataclass(frozen=True)
class Merged(Generic[Value]):
    """One caller's part of a merged call."""

    outcomes: list[Outcome[Value]]
    model: ModelIdentity
    cost: Cost


@dataclass(frozen=True)
class _Part(Generic[Value]):
    outcome: Outcome[Value]
    model: ModelIdentity
    cost: Cost


class MergedCalls(Generic[Key, Item, Value]):
    """Merges calls with equal keys; each caller gets its own outcomes and its share of the cost.

    Of several keys, those for which ``prepared`` is true go first.
    """

    def __init__(
        self,
        call: Callable[[Key, list[Item]], CostedResponse[Value]],
        thread: EngineThread,
        *,
        max_wait: float,
        prepared: Callable[[Key], bool] = lambda _: True,
    ) -> None:
        self._call = call
        self._thread = thread
        self._batcher = Batcher(self._run, max_size=MAX_BATCH, max_wait=max_wait, prepared=prepared)

    async def __call__(self, key: Key, items: Sequence[Item]) -> Merged[Value]:
        """Return the outcomes of ``items`` in order."""
        parts = await self._batcher.submit(key, items)
        cost = sum((part.cost for part in parts), start=Cost())
        # Both batches of a split call have the same weights, which change only with the replica.
        return Merged([part.outcome for part in parts], parts[0].model, cost)

    async def _run(self, key: Key, items: list[Item]) -> list[_Part[Value]]:
        response = await self._thread.run(self._call, key, items)
        costs = shares(response.cost, len(items))
        return [
            _Part(outcome, response.model, cost)
            for outcome, cost in zip(response.outcomes, costs, strict=True)
        ]


def shares(cost: Cost, n: int) -> list[Cost]:
    """Split ``cost`` evenly over ``n`` items; counts stay integers and add up to the original."""
    values: dict[str, int | float] = cost.model_dump()
    return [
        Cost.model_validate({name: _share(value, index, n) for name, value in values.items()})
        for index in range(n)
    ]


def _share(value: int | float, index: int, n: int) -> int | float:
    if isinstance(value, float):
        return value / n
    # The first items get the remainder, so that the shares add up to the total.
    return value // n + (index < value % n)
