"""A keyed asyncio batcher: concurrent calls that can share a batch run as one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from counterpose_core.errors import BadBackendOutput

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
Value = TypeVar("Value")

MOST_PATIENT_S = 60.0
"""A tenth of the time after which a call ends with an error."""

Run = Callable[[Key, list[Item]], Awaitable[Sequence[Value]]]


@dataclass(eq=False)
class _Waiting(Generic[Item, Value]):
    item: Item
    result: asyncio.Future[Value]
    since: float


class Batcher(Generic[Key, Item, Value]):
    """Groups waiting items by key and hands ``run`` up to ``max_size`` of them, one batch at a time.

    A batch starts when it is full or its oldest item has waited ``max_wait`` seconds; while one runs,
    the next gathers. Keys for which ``prepared`` is true go first, because the others cost more than a
    batch (a model must be loaded), until an item has waited ``most_patient`` seconds. If the caller of an
    item has gone, the item is dropped before it starts, or its value is discarded; the rest of its batch is
    not affected.
    """

    def __init__(
        self,
        run: Run[Key, Item, Value],
        *,
        max_size: int,
        max_wait: float,
        prepared: Callable[[Key], bool] = lambda _: True,
        most_patient: float = MOST_PATIENT_S,
    ) -> None:
        self._run = run
        self._prepared, self._most_patient = prepared, most_patient
        self._max_size = max_size
        self._max_wait = max_wait
        self._queues: dict[Key, deque[_Waiting[Item, Value]]] = {}
        self._arrived = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None

    async def submit(self, key: Key, items: Sequence[Item]) -> list[Value]:
        """Return the values of ``items`` in order, or raise the exception of their batch."""
        loop = asyncio.get_running_loop()
        waiting: list[_Waiting[Item, Value]] = [
            _Waiting(item, loop.create_future(), loop.time()) for item in items
        ]
        self._queues.setdefault(key, deque()).extend(waiting)
        self._arrived.set()
        if self._worker is None or self._worker.done():
            self._worker = loop.create_task(self._drain())
        try:
            return await asyncio.gather(*(one.result for one in waiting))
        finally:
            # Cancelling marks results whose caller has gone; a result that is set does not change.
            for one in waiting:
                one.result.cancel()

    async def _drain(self) -> None:
        while self._queues:
            key = min(self._queues, key=self._turn)
            await self._wait_for_company(key)
            batch = self._take(key)
            if batch:
                await self._serve(key, batch)

    def _turn(self, key: Key) -> tuple[bool, float]:
        """The order of the keys: what has waited too long, then what is prepared; of these, the oldest."""
        queue = self._queues[key]
        if not queue:
            # First, so that `_take` removes its key.
            return False, 0.0
        # Without a bound, or without regard to age, a busy key would starve the others.
        late = asyncio.get_running_loop().time() - queue[0].since > self._most_patient
        return not (late or self._prepared(key)), queue[0].since

    async def _wait_for_company(self, key: Key) -> None:
        queue = self._queues[key]
        loop = asyncio.get_running_loop()
        while queue and len(queue) < self._max_size:
            left = queue[0].since + self._max_wait - loop.time()
            if left <= 0:
                return
            self._arrived.clear()
            try:
                async with asyncio.timeout(left):
                    await self._arrived.wait()
            except TimeoutError:
                return

    def _take(self, key: Key) -> list[_Waiting[Item, Value]]:
        queue, batch = self._queues[key], list[_Waiting[Item, Value]]()
        while queue and len(batch) < self._max_size:
            one = queue.popleft()
            if not one.result.done():
                batch.append(one)
        if not queue:
            del self._queues[key]
        return batch

    async def _serve(self, key: Key, batch: list[_Waiting[Item, Value]]) -> None:
        try:
            values = await self._run(key, [one.item for one in batch])
            if len(values) != len(batch):
                raise BadBackendOutput(
                    f"the engine returned {len(values)} values for a batch of {len(batch)} items"
                )
        # Any exception: the worker must survive, and every waiting caller must get the error.
        except Exception as error:
            for one in batch:
                if not one.result.done():
                    one.result.set_exception(error)
            return
        for one, value in zip(batch, values, strict=True):
            if not one.result.done():
                one.result.set_result(value)
