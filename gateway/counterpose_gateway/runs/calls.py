"""The calls of an attempt: what steps ask services by, and what each call is booked with."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from typing import TypeVar

from counterpose_core.contract.base import BatchResponse, Outcome
from counterpose_core.contract.runs import Provenance
from counterpose_core.errors import CounterposeError, DeadlineExceeded, FunctionGone
from counterpose_core.types import Cost
from counterpose_gateway.records.items import MAX_ATTEMPTS
from counterpose_gateway.runs.stores import Store
from counterpose_gateway.services.ports import Services

T = TypeVar("T")
R = TypeVar("R")


async def together(calls: Iterable[Coroutine[None, None, T]]) -> list[T]:
    """Run independent calls concurrently; wait for all of them, then raise the first failure if any."""
    # Waits for all: a call left running would write into an attempt that has ended.
    answers = await asyncio.gather(*calls, return_exceptions=True)
    results: list[T] = []
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
        results.append(answer)
    return results


def own_cost(cost: Cost) -> Cost:
    """An item's own part of a cost: calls and waits it shares with others are booked with the response."""
    return cost.model_copy(update={"unet_calls": 0, "host_syncs": 0})


class RunStoppedError(Exception):
    """Ends an attempt whose whole run must stop: ``why`` would fail each of its further items."""

    def __init__(self, why: CounterposeError) -> None:
        super().__init__(why.detail)
        self.why = why


class Calls:
    """The services and the store of an attempt, with the seconds, the cost and the weights of its calls."""

    def __init__(self, services: Services, store: Store, proceed: Callable[[], Awaitable[None]]) -> None:
        self.services, self.store = services, store
        self._proceed = proceed
        self._models, self._seconds, self._shared_cost = dict[str, str](), dict[str, float](), Cost()

    async def ask(
        self,
        service: str,
        method: Callable[[R], Awaitable[BatchResponse[T]]],
        request: R,
        *,
        model: str | None = None,
        is_costed: bool = True,
    ) -> list[Outcome[T]]:
        """Call a service; record under ``model``, or else its name, which weights answered, and the cost.

        Raises:
            RunStoppedError: the program that serves one of the run's classifiers has ended.
        """
        response = await self.call(service, method, request)
        self._models[model or service] = f"{response.model.id}@{response.model.revision}"
        if is_costed:
            costs = (getattr(each.value, "cost", Cost()) for each in response.outcomes)
            self.add_cost(getattr(response, "cost", Cost()), costs)
        return response.outcomes

    async def call(self, service: str, method: Callable[[R], Awaitable[T]], request: R) -> T:
        """Call a service unless the run is being cancelled, and book its seconds.

        Raises:
            RunStoppedError: the program that serves one of the run's classifiers has ended.
        """
        await self._proceed()
        start = time.perf_counter()
        try:
            return await method(request)
        except FunctionGone as gone:
            raise RunStoppedError(gone) from gone
        finally:
            # A failed call takes seconds too.
            self._seconds[service] = self._seconds.get(service, 0.0) + time.perf_counter() - start

    def add_cost(self, total: Cost, own: Iterable[Cost] = ()) -> None:
        """Add what a call cost beyond the ``own`` costs of its items."""
        borne = sum(map(own_cost, own), Cost()).model_dump()
        # Never below zero: a service that rounds its total down would reduce another's cost.
        rest = {name: max(0, value - borne[name]) for name, value in total.model_dump().items()}
        self._shared_cost += Cost.model_validate(rest)

    def booked(self, result: Provenance) -> Provenance:
        """Return a result with all that was booked since the last one."""
        booked = result.model_copy(
            update={
                "cost": result.cost + self._shared_cost,
                "service_seconds": dict(self._seconds),
                "models": dict(self._models),
            }
        )
        # Added once, to the first item with a result, so that sums over items stay exact.
        self._shared_cost, self._seconds = Cost(), {}
        return booked


async def repeated(call: Callable[[], Awaitable[R]]) -> R:
    """Make a call again that missed its deadline, as often as an item is tried.

    For calls whose failure fails no item: what they measure would be missing for good, and a run whose
    network halted for a while would have other results than one that was not disturbed.

    Raises:
        CounterposeError: the error of the last try, or one that another try would not mend.
    """
    for _ in range(MAX_ATTEMPTS - 1):
        with suppress(DeadlineExceeded):
            return await call()
    return await call()
