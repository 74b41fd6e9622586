"""Concurrent calls of one engine method, merged into one call and split again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from counterpose_core.contract.base import MAX_BATCH, CostedBatchResponse, Outcome
from counterpose_core.types import Cost
from counterpose_services.batching.batcher import Batcher
from counterpose_services.batching.engine_thread import EngineThread

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
Response = TypeVar("Response", bound=CostedBatchResponse[Any])


@dataclass(frozen=True)
class _Part(Generic[Response]):
    outcome: Outcome[Any]
    response: Response
    cost: Cost


class MergedCalls(Generic[Key, Item, Response]):
    """Merges calls with equal keys; each caller gets its own outcomes and its share of the cost.

    Of several keys, those for which ``prepared`` is true go first.
    """

    def __init__(
        self,
        call: Callable[[Key, list[Item]], Response],
        thread: EngineThread,
        *,
        max_wait: float,
        prepared: Callable[[Key], bool] = lambda _: True,
    ) -> None:
        self._call = call
        self._thread = thread
        self._batcher = Batcher(self._run, max_size=MAX_BATCH, max_wait=max_wait, prepared=prepared)

    async def __call__(self, key: Key, items: Sequence[Item]) -> Response:
        """Return the answer to ``items``: their outcomes in order, and their share of the cost."""
        parts = await self._batcher.submit(key, items)
        cost = sum((part.cost for part in parts), start=Cost())
        # Both batches of a split call have the same weights, which change only with the replica.
        own = {"outcomes": [part.outcome for part in parts], "cost": cost}
        return parts[0].response.model_copy(update=own)

    async def _run(self, key: Key, items: list[Item]) -> list[_Part[Response]]:
        response = await self._thread.run(self._call, key, items)
        costs = shares(response.cost, len(items))
        return [
            _Part(outcome, response, cost) for outcome, cost in zip(response.outcomes, costs, strict=True)
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
